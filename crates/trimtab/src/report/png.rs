//! Pictures as PNG, from the SVG of the same picture.

use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::fontdb::{Database, Family, Query};
use resvg::usvg::{ImageHrefResolver, Options, Tree};
use std::sync::Arc;

/// Pixels for each unit of the picture: sharp on screens of today.
pub const SCALE: f32 = 2.0;

/// Fonts that most machines have one of, the most readable first.
const SANS_SERIF: [&str; 6] = ["DejaVu Sans", "Noto Sans", "Liberation Sans", "Arial", "Helvetica", "Cantarell"];

/// What draws text.
#[derive(Debug, Clone)]
pub struct Fonts(Arc<Database>);

impl Fonts {
    /// The fonts of the machine.
    ///
    /// # Errors
    /// If it has none: names and figures would be missing.
    pub fn of_machine() -> anyhow::Result<Self> {
        let mut fonts = Database::new();
        fonts.load_system_fonts();
        let has = |fonts: &Database, name: &str| fonts.query(&Query { families: &[Family::Name(name)], ..Query::default() }).is_some();
        let known = SANS_SERIF.iter().find(|name| has(&fonts, name)).map(|name| (*name).to_owned());
        let any = || fonts.faces().find_map(|face| face.families.first().map(|(name, _)| name.clone()));
        let Some(family) = known.or_else(any) else {
            anyhow::bail!("a PNG needs a font, and none is installed; an SVG needs none");
        };
        fonts.set_sans_serif_family(family);
        Ok(Self(Arc::new(fonts)))
    }
}

/// `svg` in [`SCALE`] times its size.
///
/// # Errors
/// What is no SVG, or too large for memory.
pub fn of_svg(svg: &str, fonts: &Fonts) -> anyhow::Result<Vec<u8>> {
    // No name in a picture is ever a path that is opened.
    let image_href_resolver = ImageHrefResolver { resolve_data: Box::new(|_, _, _| None), resolve_string: Box::new(|_, _| None) };
    let options = Options { fontdb: Arc::clone(&fonts.0), image_href_resolver, ..Options::default() };
    let tree = Tree::from_str(svg, &options)?;
    let size = tree.size().to_int_size().scale_by(SCALE).ok_or_else(|| anyhow::anyhow!("the picture has no size"))?;
    let mut pixels = Pixmap::new(size.width(), size.height())
        .ok_or_else(|| anyhow::anyhow!("a picture of {} × {} pixels is too large", size.width(), size.height()))?;
    resvg::render(&tree, Transform::from_scale(SCALE, SCALE), &mut pixels.as_mut());
    Ok(pixels.encode_png()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::palette;
    use crate::report::svg::crystal;

    fn colour(hex: &str) -> (u8, u8, u8) {
        let value = u32::from_str_radix(hex.trim_start_matches('#'), 16).unwrap();
        ((value >> 16) as u8, (value >> 8) as u8, value as u8)
    }

    /// Pixels of a colour in the longest line of them.
    fn longest(picture: &Pixmap, of: (u8, u8, u8), rows: std::ops::Range<u32>) -> u32 {
        let is = |x: u32, y: u32| picture.pixel(x, y).is_some_and(|p| (p.red(), p.green(), p.blue()) == of);
        rows.map(|y| (0..picture.width()).filter(|x| is(*x, y)).count() as u32).max().unwrap_or(0)
    }

    #[test]
    fn bars_are_as_long_as_rates_are_large_and_there_is_text() {
        let Ok(fonts) = Fonts::of_machine() else { return println!("skipped: no font is installed") };
        let rows = [("SEQ 1 MiB".to_owned(), [Some(500.0), None]), ("RND 4 KiB".to_owned(), [Some(125.0), None])];
        let png = of_svg(&crystal("a drive", "below", &rows), &fonts).unwrap();
        let picture = Pixmap::decode_png(&png).unwrap();
        assert_eq!((png[..4].to_vec(), picture.width()), (b"\x89PNG".to_vec(), 1440));
        let read = colour(palette::LIGHT[2]);
        let below_the_first = (64 + 50) * 2;
        let (first, second) =
            (longest(&picture, read, 0..below_the_first), longest(&picture, read, below_the_first..picture.height() - 80));
        assert!((f64::from(first) / f64::from(second) / 4.0 - 1.0).abs() < 0.02, "{first} and {second} pixels");
        // Ink of letters, in the line of the title, where there is nothing else.
        let dark = |x: u32, y: u32| picture.pixel(x, y).is_some_and(|p| p.red() < 0x60 && p.alpha() == 255);
        let ink = (0..picture.width()).flat_map(|x| (20..60).map(move |y| (x, y))).filter(|(x, y)| dark(*x, *y)).count();
        assert!(ink > 200, "{ink} dark pixels in the title");
    }

    #[test]
    fn what_is_no_picture_is_an_error_and_no_file_is_opened_from_within_one() {
        let Ok(fonts) = Fonts::of_machine() else { return println!("skipped: no font is installed") };
        assert!(of_svg("no picture", &fonts).is_err());
        let dir = tempfile::tempdir().unwrap();
        let other = dir.path().join("other.svg");
        std::fs::write(
            &other,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"9\" height=\"9\"><rect width=\"9\" height=\"9\" fill=\"red\"/></svg>",
        )
        .unwrap();
        let outer = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"9\" height=\"9\"><image href=\"{}\" width=\"9\" height=\"9\"/></svg>",
            other.display()
        );
        let picture = Pixmap::decode_png(&of_svg(&outer, &fonts).unwrap()).unwrap();
        assert!(picture.pixels().iter().all(|pixel| pixel.alpha() == 0), "a picture shows another file");
    }
}
