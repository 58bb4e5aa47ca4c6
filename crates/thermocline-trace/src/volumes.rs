//! Volume names, renumbered in order of first appearance.

use std::collections::HashMap;

/// Names this long or shorter are found without hashing them.
const SHORT_BYTES: usize = 7;

/// Number of short names that are remembered, by the low bits of a mix of their bytes.
const SHORT_SLOTS: usize = 64;

/// The volumes of a trace so far.
#[derive(Debug)]
pub(crate) struct Volumes {
    names: Vec<String>,
    number_of: HashMap<Box<[u8]>, u32>,
    /// Packed short names and their numbers; 0 is not a name.
    recent: [(u64, u32); SHORT_SLOTS],
}

impl Default for Volumes {
    fn default() -> Self {
        Self { names: Vec::new(), number_of: HashMap::new(), recent: [(0, 0); SHORT_SLOTS] }
    }
}

impl Volumes {
    /// Return the number of the volume called `name`.
    #[inline]
    pub(crate) fn number(&mut self, name: &[u8]) -> u32 {
        if name.len() > SHORT_BYTES {
            return self.look_up(name);
        }
        // The length keeps packed names distinct: "" from "\0", and every name from 0.
        let mut packed = name.len() as u64 + 1;
        for &byte in name {
            packed = packed << 8 | u64::from(byte);
        }
        let slot = (packed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 58) as usize;
        if self.recent[slot].0 == packed {
            return self.recent[slot].1;
        }
        let number = self.look_up(name);
        self.recent[slot] = (packed, number);
        number
    }

    /// Return all names so far, in order of their numbers.
    pub(crate) fn names(&self) -> &[String] {
        &self.names
    }

    #[cold]
    fn look_up(&mut self, name: &[u8]) -> u32 {
        if let Some(&number) = self.number_of.get(name) {
            return number;
        }
        let number = u32::try_from(self.names.len()).expect("names are limited by memory");
        self.names.push(String::from_utf8_lossy(name).into_owned());
        self.number_of.insert(name.into(), number);
        number
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn numbers_follow_first_appearance(
            names in prop::collection::vec(prop::collection::vec(0_u8..3, 0..10), 0..200),
        ) {
            let mut volumes = Volumes::default();
            let mut seen: Vec<Vec<u8>> = Vec::new();
            for name in names {
                let expected = seen.iter().position(|old| *old == name).unwrap_or_else(|| {
                    seen.push(name.clone());
                    seen.len() - 1
                });
                prop_assert_eq!(volumes.number(&name) as usize, expected);
            }
            prop_assert_eq!(volumes.names().len(), seen.len());
        }
    }
}
