//! The look of compared things: a colour; the page's script adds a dash or a shape. A
//! policy looks the same everywhere.

use trimtab_sim::policy::PolicySpec;

/// Colours on paper, in the order of the policies; the last is for anything else.
pub const LIGHT: [&str; 6] = ["#051724", "#B51B2D", "#4449FF", "#24A686", "#724383", "#D28000"];
/// Colours on a dark screen.
pub const DARK: [&str; 6] = ["#999697", "#FF5D1F", "#4C78FF", "#16FD8A", "#F7A0FF", "#FFF71C"];

/// Looks for `names`: by policy if all policies differ, else in sequence.
pub fn looks(names: &[&str]) -> Vec<usize> {
    let of_policies: Option<Vec<usize>> = names.iter().map(policy_of).collect();
    let apart = |looks: &Vec<usize>| (1..looks.len()).all(|at| !looks[..at].contains(&looks[at]));
    of_policies
        .filter(apart)
        .unwrap_or_else(|| (0..names.len()).map(|at| at % LIGHT.len()).collect())
}

/// Looks for names next to their marks: the same policy looks the same in every study.
pub fn looks_of_marks(names: &[&str]) -> Vec<usize> {
    names.iter().map(policy_of).collect::<Option<Vec<usize>>>().unwrap_or_else(|| looks(names))
}

/// Index of the policy that a name begins with.
fn policy_of(name: &&str) -> Option<usize> {
    PolicySpec::NAMES.iter().position(|policy| name.split([' ', ':']).next() == Some(*policy))
}

#[cfg(test)]
mod tests {
    use super::*;

    type Rgb = [f64; 3];

    /// Linear light of a colour.
    fn linear(hex: &str) -> Rgb {
        let channel =
            |at: usize| f64::from(u8::from_str_radix(&hex[at..at + 2], 16).unwrap()) / 255.0;
        [1, 3, 5].map(|at| {
            let c = channel(at);
            if c <= 0.040_45 { c / 12.92 } else { ((c + 0.055) / 1.055).powf(2.4) }
        })
    }

    /// Vision without one kind of cone: Machado, Oliveira and Fernandes 2009, severity
    /// 1.0, on linear light.
    const SIGHTS: [(&str, [Rgb; 3]); 4] = [
        ("all cones", [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]),
        (
            "protanopia",
            [
                [0.152_286, 1.052_583, -0.204_868],
                [0.114_503, 0.786_281, 0.099_216],
                [-0.003_882, -0.048_116, 1.051_998],
            ],
        ),
        (
            "deuteranopia",
            [
                [0.367_322, 0.860_646, -0.227_968],
                [0.280_085, 0.672_501, 0.047_413],
                [-0.011_820, 0.042_940, 0.968_881],
            ],
        ),
        (
            "tritanopia",
            [
                [1.255_528, -0.076_749, -0.178_779],
                [-0.078_411, 0.930_809, 0.147_602],
                [0.004_733, 0.691_367, 0.303_900],
            ],
        ),
    ];

    fn seen(hex: &str, sight: &[Rgb; 3]) -> Rgb {
        let light = linear(hex);
        (*sight).map(|row| row.iter().zip(light).map(|(a, b)| a * b).sum::<f64>().clamp(0.0, 1.0))
    }

    /// CIE L*a*b*, white D65.
    fn lab([r, g, b]: Rgb) -> Rgb {
        let f = |t: f64| if t > 0.008_856 { t.cbrt() } else { 7.787 * t + 16.0 / 116.0 };
        let x = f((0.412_456 * r + 0.357_576 * g + 0.180_438 * b) / 0.950_47);
        let y = f(0.212_673 * r + 0.715_152 * g + 0.072_175 * b);
        let z = f((0.019_334 * r + 0.119_192 * g + 0.950_304 * b) / 1.088_83);
        [116.0 * y - 16.0, 500.0 * (x - y), 200.0 * (y - z)]
    }

    fn distance(a: Rgb, b: Rgb) -> f64 {
        a.iter().zip(b).map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt()
    }

    fn contrast(a: &str, b: &str) -> f64 {
        let luminance = |hex: &str| {
            let [r, g, b] = linear(hex);
            0.2126 * r + 0.7152 * g + 0.0722 * b + 0.05
        };
        let (a, b) = (luminance(a), luminance(b));
        a.max(b) / a.min(b)
    }

    /// Fails if two colours are closer than `apart` (CIE 1976; 2.3 is just noticeable) in
    /// any kind of vision.
    fn check(colours: &[&str], apart: f64) {
        for (name, sight) in &SIGHTS {
            for (at, a) in colours.iter().enumerate() {
                for b in &colours[at + 1..] {
                    let far = distance(lab(seen(a, sight)), lab(seen(b, sight)));
                    assert!(far >= apart, "{a} and {b} are {far:.1} apart with {name}");
                }
            }
        }
    }

    #[test]
    fn lab_and_contrast_match_published_values() {
        // L*a*b* of sRGB red, and the contrast of black on white, as published.
        let red = lab(linear("#FF0000"));
        assert!(distance(red, [53.24, 80.09, 67.20]) < 0.1, "{red:?}");
        assert!((contrast("#000000", "#FFFFFF") - 21.0).abs() < 1e-9);
        // Red and green of equal luminance look alike to most colour-blind people; the
        // check must detect them.
        let [(_, _), _, (_, deutan), _] = &SIGHTS;
        assert!(distance(lab(seen("#A16207", deutan)), lab(seen("#C2410C", deutan))) < 20.0);
    }

    #[test]
    fn colours_are_distinct_in_every_kind_of_vision() {
        check(&LIGHT, 25.0);
        check(&DARK, 25.0);
        for (colours, paper) in [(LIGHT, "#FFFFFF"), (DARK, "#0D1117")] {
            for colour in colours {
                assert!(contrast(colour, paper) >= 3.0, "{colour}: {:.1}", contrast(colour, paper));
            }
        }
    }

    #[test]
    fn policy_looks_the_same_everywhere() {
        assert_eq!(looks(&["idle", "none"]), [4, 0]);
        assert_eq!(looks(&["batched:every=7d", "online"]), [2, 1]);
        assert_eq!(looks(&["none 60%", "none 90%", "x"]), [0, 1, 2]);
    }
}
