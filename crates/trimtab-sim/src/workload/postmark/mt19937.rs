//! PostMark's random numbers: MT19937 with the reference seeding of 1999.
//!
//! Matsumoto and Nishimura, "Mersenne Twister", ACM TOMACS 8(1), 1998. The common seeding
//! of 2002 gives other numbers; only the earlier one reproduces PostMark's published
//! counts.

const WORDS: usize = 624;
const OFFSET: usize = 397;
const MATRIX: u32 = 0x9908_b0df;
const UPPER: u32 = 0x8000_0000;

/// The generator.
#[derive(Clone, Debug)]
pub struct Mt19937 {
    state: [u32; WORDS],
    /// Next word; `WORDS` if the state must be regenerated first.
    next: usize,
    /// Regenerations of the state.
    generations: u64,
}

impl Mt19937 {
    /// Seeded as in 1999: a word joins the high halves of two linear congruential values.
    #[must_use]
    pub fn new(seed: u32) -> Self {
        let mut value = seed;
        let mut step = || {
            let high = value & 0xffff_0000;
            value = value.wrapping_mul(69069).wrapping_add(1);
            high
        };
        let mut state = [0; WORDS];
        for word in &mut state {
            *word = step();
            *word |= step() >> 16;
        }
        Self { state, next: WORDS, generations: 0 }
    }

    /// State words, to check the seeding.
    #[must_use]
    pub const fn state(&self) -> &[u32; WORDS] {
        &self.state
    }

    /// Number of outputs taken.
    #[must_use]
    pub const fn taken(&self) -> u64 {
        match self.generations {
            0 => 0,
            generations => (generations - 1) * WORDS as u64 + self.next as u64,
        }
    }

    /// Next output.
    #[inline]
    pub fn next_u32(&mut self) -> u32 {
        if self.next >= WORDS {
            self.regenerate();
        }
        let mut y = self.state[self.next];
        self.next += 1;
        y ^= y >> 11;
        y ^= (y << 7) & 0x9d2c_5680;
        y ^= (y << 15) & 0xefc6_0000;
        y ^ (y >> 18)
    }

    /// Next output modulo `bound`; 0 without taking an output for a `bound` of 0.
    #[inline]
    pub fn below(&mut self, bound: u32) -> u32 {
        if bound == 0 { 0 } else { self.next_u32() % bound }
    }

    /// Skips `count` outputs.
    pub fn skip(&mut self, count: u64) {
        let mut left = count;
        while left > 0 {
            if self.next >= WORDS {
                self.regenerate();
            }
            let here = left.min((WORDS - self.next) as u64);
            self.next += here as usize;
            left -= here;
        }
    }

    fn regenerate(&mut self) {
        let twist = |high: u32, low: u32| {
            let y = (high & UPPER) | (low & !UPPER);
            (y >> 1) ^ if y & 1 == 1 { MATRIX } else { 0 }
        };
        let state = &mut self.state;
        for k in 0..WORDS - OFFSET {
            state[k] = state[k + OFFSET] ^ twist(state[k], state[k + 1]);
        }
        for k in WORDS - OFFSET..WORDS - 1 {
            state[k] = state[k + OFFSET - WORDS] ^ twist(state[k], state[k + 1]);
        }
        state[WORDS - 1] = state[OFFSET - 1] ^ twist(state[WORDS - 1], state[0]);
        self.next = 0;
        self.generations += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    /// `seed S state[0..3] w w w w`, then the outputs 1 to 10, then 1000 to 1002.
    const VECTORS: &str = include_str!("../../../tests/data/postmark/rng_vectors.txt");

    fn numbers(text: &str) -> Vec<u32> {
        text.split_ascii_whitespace().map(|n| n.parse().unwrap()).collect()
    }

    #[test]
    fn state_and_outputs_match_the_original() {
        let mut lines = VECTORS.lines();
        let mut seeds = 0;
        while let Some(line) = lines.next() {
            let Some((seed, words)) =
                line.strip_prefix("seed ").and_then(|rest| rest.split_once(" state[0..3] "))
            else {
                continue;
            };
            let mut rng = Mt19937::new(seed.parse().unwrap());
            assert_eq!(rng.state()[..4], numbers(words), "seed {seed}");
            let outputs: Vec<u32> = (0..1002).map(|_| rng.next_u32()).collect();
            assert_eq!(
                outputs[..10],
                numbers(lines.next().unwrap().split_once(": ").unwrap().1),
                "seed {seed}"
            );
            assert_eq!(
                outputs[999..],
                numbers(lines.next().unwrap().split_once(": ").unwrap().1),
                "seed {seed}"
            );
            assert_eq!(rng.taken(), 1002);
            seeds += 1;
        }
        assert_eq!(seeds, 6);
    }

    #[test]
    fn skip_equals_taking_outputs() {
        for count in [0, 1, 623, 624, 625, 5000] {
            let (mut a, mut b) = (Mt19937::new(7), Mt19937::new(7));
            for _ in 0..count {
                a.next_u32();
            }
            b.skip(count);
            assert_eq!(a.taken(), b.taken());
            assert_eq!(a.next_u32(), b.next_u32(), "after {count}");
        }
    }

    #[test]
    fn below_of_zero_takes_no_output() {
        let mut rng = Mt19937::new(42);
        assert_eq!(rng.below(0), 0);
        assert_eq!(rng.taken(), 0);
        assert_eq!(rng.below(1000), 4_179_544_424 % 1000);
    }
}
