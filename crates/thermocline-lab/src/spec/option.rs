//! Description of a hierarchy's options; the rows are in [`HIERARCHY_OPTIONS`].

use super::{HIERARCHY_OPTIONS, HierarchySpec};

/// An option that all tiers of a hierarchy share.
#[derive(Debug)]
pub struct HierarchyOption {
    /// The key of TOML and the argument of Python; on the command line with hyphens.
    pub key: &'static str,
    /// Effect, in one line.
    pub summary: &'static str,
    /// The option without which it means nothing, and the word that this one must have.
    pub only_with: Option<(&'static str, &'static str)>,
    /// The values that it takes, and what they set.
    pub kind: OptionKind,
}

/// The values of an option, and what they set.
#[derive(Clone, Copy, Debug)]
pub enum OptionKind {
    /// One of these words; the first is what a [`HierarchySpec`] has if none is given.
    Words(&'static [OptionWord]),
    /// The name of something that there is a list of.
    Name {
        /// Named item, in the singular.
        of: &'static str,
        /// A name.
        example: &'static str,
        /// Takes the name.
        set: fn(&mut HierarchySpec, String),
    },
    /// A text of a form of its own.
    Text {
        /// A text.
        example: &'static str,
        /// Takes the text, or tells what is wrong with it.
        set: fn(&mut HierarchySpec, &str) -> Result<(), String>,
    },
    /// A whole number; surfaces refuse 0.
    Count {
        /// Counted item, in the singular.
        of: &'static str,
        /// A number.
        example: u32,
        /// Takes the number.
        set: fn(&mut HierarchySpec, u32),
    },
}

/// A word that an option takes.
#[derive(Debug)]
pub struct OptionWord {
    /// The word.
    pub word: &'static str,
    /// Meaning, in one line.
    pub summary: &'static str,
    /// Setter of its effect.
    pub set: fn(&mut HierarchySpec),
}

/// Return the option of that key.
///
/// # Panics
/// If there is none.
pub fn hierarchy_option(key: &str) -> &'static HierarchyOption {
    let mut options = HIERARCHY_OPTIONS.iter();
    options.find(|option| option.key == key).expect("the key is of a row")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_word_is_the_default_and_each_value_sets_something() {
        let default = HierarchySpec::default();
        for HierarchyOption { key, only_with, kind, .. } in HIERARCHY_OPTIONS {
            let mut specs = vec![default.clone()];
            match kind {
                OptionKind::Words(words) => {
                    let mut first = default.clone();
                    (words[0].set)(&mut first);
                    assert_eq!(first, default, "{key}");
                    for word in &words[1..] {
                        let mut spec = default.clone();
                        (word.set)(&mut spec);
                        // A word sets all that another one of its option has set.
                        let mut again = spec.clone();
                        (words[0].set)(&mut again);
                        assert_eq!(again, default, "{key}");
                        specs.push(spec);
                    }
                }
                OptionKind::Name { example, set, .. } => {
                    let mut spec = default.clone();
                    set(&mut spec, (*example).into());
                    specs.push(spec);
                }
                OptionKind::Text { example, set } => {
                    let mut spec = default.clone();
                    set(&mut spec, example).expect("the example is well-formed");
                    assert!(set(&mut spec, "?").is_err(), "{key}");
                    specs.push(spec);
                }
                OptionKind::Count { example, set, .. } => {
                    let mut spec = default.clone();
                    set(&mut spec, *example);
                    specs.push(spec);
                }
            }
            for (place, spec) in specs.iter().enumerate() {
                assert!(!specs[..place].contains(spec), "{key}");
            }
            if let Some((other, word)) = only_with {
                let OptionKind::Words(words) = hierarchy_option(other).kind else {
                    panic!("{key}: {other}");
                };
                assert!(words.iter().any(|one| one.word == *word), "{key}: {word}");
            }
        }
        for (place, option) in HIERARCHY_OPTIONS.iter().enumerate() {
            assert!(HIERARCHY_OPTIONS[..place].iter().all(|one| one.key != option.key));
        }
    }
}
