//! Help for unknown names.

use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Reverse;

/// Maximum number of letters of a name that may be wrong, missing, added or swapped.
const WRONG_LETTERS_MAX: usize = 2;

/// Says what to write in place of an unknown name: ``did you mean `lru`?`` if a known name is much like
/// it, and `there are: ...` with all of them otherwise.
pub fn there_are<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    say(name, known, "there are")
}

/// Return the same for the parameters of something: `it has: ...`.
pub fn it_has<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    say(name, known, "it has")
}

fn say<'a>(name: &str, known: impl IntoIterator<Item = &'a str>, verb: &str) -> String {
    let known: Vec<&str> = known.into_iter().collect();
    match alike(name, &known) {
        _ if name.is_empty() => "is there a comma too many?".into(),
        Some(like) => format!("did you mean `{like}`?"),
        None => format!("{verb}: {}", known.join(", ")),
    }
}

/// Return the name that is most like this one, if one is like it at all: the first of several.
pub fn alike<'a>(name: &str, known: &[&'a str]) -> Option<&'a str> {
    let letters = letters(name);
    let (wrong, _, like) = known
        .iter()
        .map(|&known| {
            let theirs = self::letters(known);
            let same = theirs.iter().zip(&letters).take_while(|(one, other)| one == other).count();
            // Of names that are as much alike, the one that begins alike for longest.
            (wrong_letters(&letters, &theirs), Reverse(same), known)
        })
        .min_by_key(|&(wrong, same, _)| (wrong, same))?;
    // Of a short name, more than half of the letters have to be right.
    (wrong <= WRONG_LETTERS_MAX.min(letters.len() / 3)).then_some(like)
}

/// Return a name without what people write in different ways.
fn letters(name: &str) -> Vec<char> {
    let letters = name.chars().filter(|letter| letter.is_alphanumeric());
    letters.flat_map(char::to_lowercase).collect()
}

/// Return the number of letters that have to be put in, left out, replaced, or swapped with the next
/// one, to make one name of the other. Libraries for that need `std`.
fn wrong_letters(one: &[char], other: &[char]) -> usize {
    let columns = other.len() + 1;
    // In row i and column j: what the first i letters of one and the first j of the other need.
    let mut needed = vec![0; (one.len() + 1) * columns];
    let at = |row: usize, column: usize| row * columns + column;
    for row in 0..=one.len() {
        for column in 0..columns {
            if row == 0 || column == 0 {
                needed[at(row, column)] = row.max(column);
                continue;
            }
            let is_same = one[row - 1] == other[column - 1];
            let mut least = needed[at(row - 1, column - 1)] + usize::from(!is_same);
            least = least.min(needed[at(row - 1, column)] + 1).min(needed[at(row, column - 1)] + 1);
            let is_swapped = row > 1
                && column > 1
                && one[row - 1] == other[column - 2]
                && one[row - 2] == other[column - 1];
            if is_swapped {
                least = least.min(needed[at(row - 2, column - 2)] + 1);
            }
            needed[at(row, column)] = least;
        }
    }
    needed[at(one.len(), other.len())]
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: [&str; 7] = ["lrfu", "lru", "lru-exclusive", "s3-fifo", "fifo", "hat", "face-gsc"];

    #[test]
    fn a_name_that_is_much_like_another_is_asked_for() {
        for (name, like) in [
            ("LRU", "lru"),
            ("s3fifo", "s3-fifo"),
            ("S3_FIFO", "s3-fifo"),
            ("lru,", "lru"),
            ("lruu", "lru"),
            ("lrfuu", "lrfu"),
            ("lru exclusive", "lru-exclusive"),
            ("lru-exclusve", "lru-exclusive"),
            ("facegcs", "face-gsc"),
            ("fif0", "fifo"),
            ("aht", "hat"),
        ] {
            let said = there_are(name, KNOWN);
            assert_eq!(said, format!("did you mean `{like}`?"), "{name}");
        }
    }

    #[test]
    fn a_name_that_is_like_none_is_not_guessed_at() {
        assert_eq!(there_are("", KNOWN), "is there a comma too many?");
        for name in ["x", "arc", "nonsense", "lru-2q-arc"] {
            assert!(there_are(name, KNOWN).starts_with("there are: lrfu, "), "{name}");
        }
        assert_eq!(it_has("sede", ["seed"]), "did you mean `seed`?");
        assert_eq!(it_has("seeds", []), "it has: ");
    }
}
