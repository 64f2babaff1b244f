//! Three-valued answers: yes, no or unknown.

/// The reason for an answer other than yes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reason {
    /// Code of the finding that reports it.
    pub code: &'static str,
    /// The reason as a clause.
    pub text: String,
}

impl Reason {
    pub fn new(code: &'static str, text: impl Into<String>) -> Self {
        Self { code, text: text.into() }
    }
}

/// Yes, no, or unknown; every answer but yes has a reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    Yes,
    No(Reason),
    Maybe(String),
}

impl Answer {
    pub fn no(code: &'static str, text: impl Into<String>) -> Self {
        Self::No(Reason::new(code, text))
    }

    pub fn maybe(text: impl Into<String>) -> Self {
        Self::Maybe(text.into())
    }

    /// Yes if both are; otherwise the first no, otherwise the first unknown.
    #[must_use]
    pub fn and(self, other: impl FnOnce() -> Self) -> Self {
        match self {
            Self::Yes => other(),
            Self::No(_) => self,
            Self::Maybe(doubt) => match other() {
                Self::No(reason) => Self::No(reason),
                _ => Self::Maybe(doubt),
            },
        }
    }

    /// Yes if either is; otherwise the first unknown, otherwise the first no.
    #[must_use]
    pub fn or(self, other: impl FnOnce() -> Self) -> Self {
        match self {
            Self::Yes => self,
            Self::No(_) => match other() {
                Self::No(_) => self,
                better => better,
            },
            Self::Maybe(_) => match other() {
                Self::Yes => Self::Yes,
                _ => self,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answer_maybe_ranks_between_yes_and_no() {
        let (yes, no, maybe) = (|| Answer::Yes, || Answer::no("x", "n"), || Answer::maybe("m"));
        for (both, either, expected_both, expected_either) in [
            (yes().and(no), yes().or(no), no(), yes()),
            (maybe().and(yes), maybe().or(yes), maybe(), yes()),
            (maybe().and(no), maybe().or(no), no(), maybe()),
            (no().and(maybe), no().or(maybe), no(), maybe()),
            (yes().and(yes), no().or(no), yes(), no()),
        ] {
            assert_eq!((both, either), (expected_both, expected_either));
        }
    }
}
