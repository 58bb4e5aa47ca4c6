//! The value of a parameter that takes several words.

use core::fmt;

/// Maximum number of words that such a parameter may declare.
pub const WORDS_MAX: usize = u32::BITS as usize;

/// One or more of the words that a parameter declares. Their order is that of the declaration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Words {
    declared: &'static [&'static str],
    /// Bit n: the n-th of them is chosen.
    mask: u32,
}

impl Words {
    /// Select the declared words whose bits are set in a mask; the first word is at bit 0.
    ///
    /// # Panics
    /// If there is none, if a bit has no word, or if more than [`WORDS_MAX`] are declared.
    pub const fn new(declared: &'static [&'static str], mask: u32) -> Self {
        assert!(declared.len() <= WORDS_MAX, "there is a bit for each word");
        assert!(mask != 0, "a word is chosen");
        assert!((mask.ilog2() as usize) < declared.len(), "each bit has a word");
        Self { declared, mask }
    }

    /// Return the words of a text, joined by `+`. `None` if one is not declared or appears twice.
    pub(super) fn parse(declared: &'static [&'static str], text: &str) -> Option<Self> {
        let mut mask = 0;
        for word in text.split('+') {
            let bit = 1 << declared.iter().position(|&known| known == word.trim())?;
            if mask & bit != 0 {
                return None;
            }
            mask |= bit;
        }
        Some(Self::new(declared, mask))
    }

    /// Return the places of the chosen words among those declared, in order.
    pub fn places(self) -> impl Iterator<Item = usize> {
        (0..self.declared.len()).filter(move |&place| self.mask & 1 << place != 0)
    }
}

impl fmt::Display for Words {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, place) in self.places().enumerate() {
            let separator = if index == 0 { "" } else { "+" };
            write!(f, "{separator}{}", self.declared[place])?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString as _;

    use super::*;

    const DECLARED: &[&str] = &["one", "two", "three"];

    #[test]
    fn words_are_read_and_written_in_the_order_of_their_declaration() {
        let parse = |text| Words::parse(DECLARED, text).map(|words| words.to_string());
        assert_eq!(parse("three+one").as_deref(), Some("one+three"));
        assert_eq!(parse("two").as_deref(), Some("two"));
        assert_eq!(parse("one + two").as_deref(), Some("one+two"));
        for bad in ["", "four", "one+", "one+one", "one,two"] {
            assert_eq!(parse(bad), None, "{bad}");
        }
        assert_eq!(Words::new(DECLARED, 0b101).places().collect::<alloc::vec::Vec<_>>(), [0, 2]);
    }
}
