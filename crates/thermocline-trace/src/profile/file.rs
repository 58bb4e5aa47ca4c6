//! The text of a profile: JSON, with a line for each part and each tree.
//!
//! A tree is a text or an array. The array `["mean <= 12", low, high]` is a split: `low` goes on where the
//! known number is at most 12. The text `"3:10 4:25"` is a leaf: outcome 3 came 10 times, outcome 4 came
//! 25 times. A leaf that begins with `x` has gaps in multiples of the mean gap.

use std::fmt::{self, Write as _};
use std::path::Path;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::scale::{self, Code};
use super::tree::{Card, Leaf, Node, Shape};
use super::{Counts, PARTS, Profile, SHAPES, Space, TIME_SHARES};
use crate::error::TraceError;
use crate::request::PageSize;

/// The version of the text that this program writes and reads.
const VERSION: u64 = 1;
/// Maximum length of a profile's text.
const BYTES_MAX: u64 = 1 << 20;
/// Splits above a leaf, at most.
const DEPTH_MAX: usize = 64;
/// Remedy for a profile that cannot be read.
const REMEDY: &str = "make it again with `thermocline trace fit`";

/// The text as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    #[serde(rename = "thermocline_profile")]
    _version: u64,
    page_size_bytes: u64,
    counts: Counts,
    born: Vec<u64>,
    duration_ns: u64,
    part_durations: Vec<u32>,
    space: Space,
    trees: Map<String, Value>,
}

/// The first thing to look at.
#[derive(Deserialize)]
struct OnlyVersion {
    thermocline_profile: Option<u64>,
}

impl Profile {
    /// Read a profile.
    ///
    /// # Errors
    /// If the file cannot be read, or is not a profile that this program understands; the error
    /// names the place and the remedy.
    pub fn read(path: &Path) -> Result<Self, TraceError> {
        let io = |source| TraceError::Io { path: path.to_owned(), action: "read", source };
        let content = |reason| TraceError::Content { path: path.to_owned(), reason };
        let bytes = std::fs::metadata(path).map_err(io)?.len();
        if bytes > BYTES_MAX {
            return Err(content(format!(
                "a profile has a few KB, and this file {bytes} bytes; {REMEDY}"
            )));
        }
        let text = std::fs::read(path).map_err(io)?;
        let text = String::from_utf8(text)
            .map_err(|_| content(format!("a profile is text, and this is none; {REMEDY}")))?;
        text.parse().map_err(|error: ProfileError| content(error.0))
    }
}

/// Reason why a text is not a profile, and the remedy.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct ProfileError(String);

impl fmt::Display for Profile {
    /// Writes the text of the file.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{{\"thermocline_profile\": {VERSION},")?;
        writeln!(f, "\"page_size_bytes\": {},", self.page_size_bytes)?;
        writeln!(f, "\"counts\": {},", json(&self.counts))?;
        writeln!(f, "\"born\": {},", json(&self.born))?;
        writeln!(f, "\"duration_ns\": {},", self.duration_ns)?;
        writeln!(f, "\"part_durations\": {},", json(&self.part_durations))?;
        writeln!(f, "\"space\": {},", json(&self.space))?;
        writeln!(f, "\"trees\": {{")?;
        for (place, (tree, shape)) in self.trees.iter().zip(&SHAPES).enumerate() {
            let end = if place + 1 == SHAPES.len() { "}}" } else { "," };
            writeln!(f, "\"{}\": {}{end}", shape.name, tree_text(tree, shape))?;
        }
        Ok(())
    }
}

/// Numbers as JSON, whose text cannot fail.
fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("numbers have a text")
}

fn tree_text(node: &Node, shape: &Shape) -> String {
    match node {
        Node::Leaf(leaf) => {
            let mut text = String::from(if leaf.is_relative { "\"x" } else { "\"" });
            for Card { first, last, count } in &leaf.cards {
                let space = if text.len() > 1 { " " } else { "" };
                let last = if first == last { String::new() } else { format!("-{last}") };
                write!(text, "{space}{first}{last}:{count}").expect("a String takes all text");
            }
            text + "\""
        }
        Node::Split { known, bound, low, high } => {
            let name = shape.known[*known];
            let [low, high] = [low, high].map(|node| tree_text(node, shape));
            format!("[\"{name} <= {bound}\",{low},{high}]")
        }
    }
}

impl FromStr for Profile {
    type Err = ProfileError;

    fn from_str(text: &str) -> Result<Self, ProfileError> {
        let json = |error: serde_json::Error| ProfileError(format!("{error}; {REMEDY}"));
        let OnlyVersion { thermocline_profile } = serde_json::from_str(text).map_err(|error| {
            ProfileError(format!("not a profile of a trace: {error}; {REMEDY}"))
        })?;
        match thermocline_profile {
            Some(VERSION) => {}
            Some(other) => {
                return Err(ProfileError(format!(
                    "`thermocline_profile` is {other}, and this program reads version {VERSION}; {REMEDY}"
                )));
            }
            None => {
                return Err(ProfileError(format!(
                    "not a profile of a trace: `thermocline_profile` is missing; {REMEDY}"
                )));
            }
        }
        let written: Written = serde_json::from_str(text).map_err(json)?;
        written
            .profile()
            .map_err(|(place, reason)| ProfileError(format!("{place}: {reason}; {REMEDY}")))
    }
}

/// A place in the text, and what is wrong there.
type Wrong = (String, String);

fn wrong<T>(place: impl Into<String>, reason: impl Into<String>) -> Result<T, Wrong> {
    Err((place.into(), reason.into()))
}

impl Written {
    fn profile(self) -> Result<Profile, Wrong> {
        PageSize::new(self.page_size_bytes)
            .map_err(|error| ("page_size_bytes".to_owned(), error.to_string()))?;
        let Counts { accesses, writes, requests, footprint_pages } = self.counts;
        if accesses == 0 || accesses > scale::GREATEST {
            return wrong(
                "counts.accesses",
                format!("{accesses} is not from 1 to {}", scale::GREATEST),
            );
        }
        let at_most =
            [("writes", writes), ("requests", requests), ("footprint_pages", footprint_pages)];
        for (name, count) in at_most {
            let least = u64::from(name != "writes");
            if !(least..=accesses).contains(&count) {
                return wrong(
                    format!("counts.{name}"),
                    format!("{count} is not from {least} to the {accesses} accesses"),
                );
            }
        }
        if self.born.len() != PARTS {
            return wrong("born", format!("{} numbers in place of {PARTS}", self.born.len()));
        }
        let born = self.born.iter().try_fold(0_u64, |sum, &count| sum.checked_add(count));
        if born.is_none_or(|born| born == 0 || born > footprint_pages) {
            return wrong("born", format!("the sum is not from 1 to the {footprint_pages} pages"));
        }
        let durations = self.part_durations.len();
        if durations != 0 && durations != PARTS {
            return wrong(
                "part_durations",
                format!("{durations} numbers in place of {PARTS}, or of none"),
            );
        }
        let shares: u64 = self.part_durations.iter().map(|&share| u64::from(share)).sum();
        if shares > 2 * u64::from(TIME_SHARES) {
            return wrong("part_durations", format!("the sum {shares} is above {TIME_SHARES}"));
        }
        check_space(&self.space)?;
        let mut trees = vec![];
        for shape in &SHAPES {
            let place = format!("trees.{}", shape.name);
            let Some(value) = self.trees.get(shape.name) else {
                return wrong(place, "the tree is missing");
            };
            trees.push(parse_tree(value, shape, &place, 0)?);
        }
        if let Some(name) =
            self.trees.keys().find(|name| SHAPES.iter().all(|shape| shape.name != **name))
        {
            return wrong(format!("trees.{name}"), "there is no such tree");
        }
        Ok(Profile {
            page_size_bytes: self.page_size_bytes,
            counts: self.counts,
            born: self.born,
            duration_ns: self.duration_ns,
            part_durations: self.part_durations,
            space: self.space,
            trees,
        })
    }
}

fn check_space(space: &Space) -> Result<(), Wrong> {
    let Space { continues, filled, chain_pages, joined_reads, joined_writes } = *space;
    let shares = [
        ("continues", continues, 0.0),
        ("filled", filled, 1.0 / 64.0),
        ("joined_reads", joined_reads, 0.0),
        ("joined_writes", joined_writes, 0.0),
    ];
    for (name, share, least) in shares {
        // Shares are rounded when they are written.
        if !(share >= least * 0.9 && share <= 1.0) {
            return wrong(format!("space.{name}"), format!("{share} is not from {least} to 1"));
        }
    }
    if !(chain_pages >= 1.0 && chain_pages <= f64::from(u32::MAX)) {
        return wrong("space.chain_pages", format!("{chain_pages} is not from 1 to 2^32"));
    }
    Ok(())
}

fn parse_tree(value: &Value, shape: &Shape, place: &str, depth: usize) -> Result<Node, Wrong> {
    if depth > DEPTH_MAX {
        return wrong(place, format!("more than {DEPTH_MAX} splits above a leaf"));
    }
    match value {
        Value::String(text) => Ok(Node::Leaf(parse_leaf(text, shape, place)?)),
        Value::Array(parts) => {
            let [Value::String(split), low, high] = &parts[..] else {
                return wrong(place, "a split is an array of a question and two trees");
            };
            let question = split.split_once(" <= ").and_then(|(name, bound)| {
                let known = shape.known.iter().position(|known| *known == name)?;
                Some((known, bound.parse::<u8>().ok()?))
            });
            let Some((known, bound)) = question else {
                let names = shape.known.join(", ");
                return wrong(
                    place,
                    format!(
                        "`{split}` is not a question like `{} <= 12`; it may ask for {names}",
                        shape.known[0]
                    ),
                );
            };
            let low = parse_tree(low, shape, &format!("{place}.low"), depth + 1)?;
            let high = parse_tree(high, shape, &format!("{place}.high"), depth + 1)?;
            Ok(Node::Split { known, bound, low: Box::new(low), high: Box::new(high) })
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => {
            wrong(place, "a tree is a text or an array")
        }
    }
}

fn parse_leaf(text: &str, shape: &Shape, place: &str) -> Result<Leaf, Wrong> {
    let (is_relative, text) = text.strip_prefix('x').map_or((false, text), |rest| (true, rest));
    let limit = match (is_relative, shape.relative) {
        (false, _) => shape.outcomes,
        (true, Some(limit)) => limit,
        (true, None) => return wrong(place, "only gaps are multiples of the mean"),
    };
    let mut cards: Vec<Card> = vec![];
    for word in text.split_ascii_whitespace() {
        let card = word.split_once(':').and_then(|(codes, count)| {
            let (first, last) = codes.split_once('-').unwrap_or((codes, codes));
            let [first, last] = [first, last].map(|code| code.parse::<Code>().ok());
            Some(Card { first: first?, last: last?, count: count.parse().ok()? })
        });
        let Some(card) = card else {
            return wrong(
                place,
                format!("`{word}` is not an outcome with its count, like `3:10` or `3-5:10`"),
            );
        };
        if card.last >= limit || card.count == 0 {
            return wrong(
                place,
                format!("`{word}`: an outcome is below {limit}, and its count above 0"),
            );
        }
        if card.first > card.last || cards.last().is_some_and(|before| before.last >= card.first) {
            return wrong(place, format!("`{word}`: outcomes ascend"));
        }
        cards.push(card);
    }
    Ok(Leaf { is_relative, cards })
}
