//! Links of Markdown documents: finding them, checking where they lead, leading them elsewhere.
//!
//! Paths are those of the repository, from its root, with `/`.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::Path;

use pulldown_cmark::{CowStr, Event, LinkType, Options, Parser, Tag, TagEnd};

/// Documents by path.
pub(crate) type Documents = BTreeMap<String, String>;

/// Return `true` if a path is that of a document.
pub(crate) fn is_document(path: &str) -> bool {
    Path::new(path).extension().is_some_and(|extension| extension == "md")
}

/// A link or an image.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Link {
    /// Destination, as it is written.
    pub(crate) destination: String,
    /// Place of the destination in the text; `None` for a link by reference.
    pub(crate) place: Option<Range<usize>>,
    /// The line it begins on, from 1.
    pub(crate) line: usize,
}

/// Target of a link inside the project.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Target {
    /// The file or folder.
    pub(crate) path: String,
    /// The heading in it; empty for none.
    pub(crate) anchor: String,
}

/// Return all links of a document.
pub(crate) fn links(text: &str) -> Vec<Link> {
    let mut links = vec![];
    for (event, range) in parser(text).into_offset_iter() {
        let Event::Start(
            Tag::Link { link_type, dest_url, .. } | Tag::Image { link_type, dest_url, .. },
        ) = event
        else {
            continue;
        };
        let place =
            (link_type == LinkType::Inline).then(|| place_of(text, &range, &dest_url)).flatten();
        let line = text[..range.start].lines().count().max(1);
        let line = line + usize::from(text[..range.start].ends_with('\n'));
        links.push(Link { destination: dest_url.into_string(), place, line });
    }
    links
}

/// Return the place where the destination of an inline link is written.
fn place_of(text: &str, range: &Range<usize>, destination: &CowStr<'_>) -> Option<Range<usize>> {
    let link = &text[range.clone()];
    let parenthesis = link.rfind("](")?;
    let start = range.start + parenthesis + link[parenthesis..].find(&**destination)?;
    Some(start..start + destination.len())
}

/// Return the names by which the headings of a document can be linked to, as mdBook and GitHub make
/// them.
pub(crate) fn anchors(text: &str) -> BTreeSet<String> {
    let mut anchors = BTreeSet::new();
    let mut heading: Option<String> = None;
    for event in parser(text) {
        match (&event, &mut heading) {
            (Event::Start(Tag::Heading { .. }), _) => heading = Some(String::new()),
            (Event::Text(part) | Event::Code(part), Some(heading)) => heading.push_str(part),
            (Event::End(TagEnd::Heading(_)), Some(title)) => {
                let anchor = anchor(title);
                let mut unique = anchor.clone();
                let mut count = 0;
                while !anchors.insert(unique.clone()) {
                    count += 1;
                    unique = format!("{anchor}-{count}");
                }
                heading = None;
            }
            _ => {}
        }
    }
    anchors
}

/// Return the name of a heading in a link.
pub(crate) fn anchor(title: &str) -> String {
    let kept = title.trim().chars().filter_map(|character| match character {
        '_' | '-' => Some(character),
        _ if character.is_alphanumeric() => Some(character.to_ascii_lowercase()),
        _ if character.is_whitespace() => Some('-'),
        _ => None,
    });
    kept.collect()
}

/// Return the first heading of a document, without its marks.
pub(crate) fn title(text: &str) -> Option<String> {
    let mut title: Option<String> = None;
    for event in parser(text) {
        match (&event, &mut title) {
            (Event::Start(Tag::Heading { .. }), None) => title = Some(String::new()),
            (Event::Text(part) | Event::Code(part), Some(title)) => title.push_str(part),
            (Event::End(TagEnd::Heading(_)), Some(_)) => return title,
            _ => {}
        }
    }
    None
}

/// Return the target of a link in the document `from`, unless it leaves the project.
pub(crate) fn resolve(from: &str, destination: &str) -> Option<Target> {
    let is_external = destination.split_once(':').is_some_and(|(scheme, _)| {
        scheme
            .chars()
            .all(|character| character.is_ascii_alphanumeric() || "+.-".contains(character))
    });
    if is_external || destination.starts_with("//") {
        return None;
    }
    let (path, anchor) = destination.split_once('#').unwrap_or((destination, ""));
    let anchor = anchor.to_owned();
    if path.is_empty() {
        return Some(Target { path: from.to_owned(), anchor });
    }
    let folder = from.rsplit_once('/').map_or("", |(folder, _)| folder);
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." if parts.last().is_some_and(|&part| part != "..") => drop(parts.pop()),
            _ => parts.push(part),
        }
    }
    Some(Target { path: parts.join("/"), anchor })
}

/// Return the way from one document to a path.
pub(crate) fn relative(from: &str, to: &str) -> String {
    let mut from: Vec<&str> = from.split('/').collect();
    from.pop();
    let to: Vec<&str> = to.split('/').collect();
    let last = to.len() - 1;
    let common = from.iter().zip(&to[..last]).take_while(|(from, to)| from == to).count();
    let up = std::iter::repeat_n("..", from.len() - common);
    up.chain(to[common..].iter().copied()).collect::<Vec<_>>().join("/")
}

/// Return a document whose links lead elsewhere: where `lead` says so.
pub(crate) fn redirected(text: &str, mut lead: impl FnMut(&str) -> Option<String>) -> String {
    let mut redirected = String::with_capacity(text.len());
    let mut done = 0;
    let mut places: Vec<(Range<usize>, String)> =
        links(text).into_iter().filter_map(|link| Some((link.place?, link.destination))).collect();
    // The place of a link around an image comes after that of the image.
    places.sort_by_key(|(place, _)| place.start);
    for (place, destination) in places {
        let Some(destination) = lead(&destination) else { continue };
        redirected.push_str(&text[done..place.start]);
        redirected.push_str(&destination);
        done = place.end;
    }
    redirected.push_str(&text[done..]);
    redirected
}

/// Return the faults of the links of all documents, one line each. `exists` knows the files and
/// folders besides.
pub(crate) fn faults(documents: &Documents, exists: impl Fn(&str) -> bool) -> Faults {
    let anchors: BTreeMap<&str, BTreeSet<String>> =
        documents.iter().map(|(path, text)| (path.as_str(), anchors(text))).collect();
    let mut faults = Faults::default();
    for (path, text) in documents {
        for link in links(text) {
            faults.links += 1;
            let Some(target) = resolve(path, &link.destination) else { continue };
            let place = format!("{path}:{}", link.line);
            let destination = &link.destination;
            if link.place.is_none() {
                faults.lines.push(format!("{place}: write the link to `{destination}` inline"));
            } else if let Some(anchors) = anchors.get(target.path.as_str()) {
                if !target.anchor.is_empty() && !anchors.contains(&target.anchor) {
                    let Target { path, anchor } = target;
                    faults.lines.push(format!(
                        "{place}: `{destination}`: `{path}` has no heading `#{anchor}`"
                    ));
                }
            } else if !exists(&target.path) {
                let path = target.path;
                faults.lines.push(format!("{place}: `{destination}`: there is no `{path}`"));
            } else if !target.anchor.is_empty() {
                faults.lines.push(format!("{place}: `{destination}`: only pages have headings"));
            }
        }
    }
    faults
}

/// Findings of a check of links.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    /// Number of links that were looked at.
    pub(crate) links: usize,
    /// Faults.
    pub(crate) lines: Vec<String>,
}

fn parser(text: &str) -> Parser<'_> {
    Parser::new_ext(text, Options::ENABLE_TABLES | Options::ENABLE_FOOTNOTES)
}
