//! Finds the sentences in documents, comments and error messages.

use std::ffi::OsStr;
use std::path::Path;
use std::str::FromStr as _;

use anyhow::{Result, anyhow};
use proc_macro2::{TokenStream, TokenTree};
use pulldown_cmark::{Event, Parser, Tag, TagEnd};
use serde::Deserialize;

/// Macros whose first string is an error message.
const ERROR_MACROS: [&str; 4] = ["anyhow", "bail", "ensure", "error"];

/// Kind of text of a sentence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Kind {
    /// A Markdown document.
    Document,
    /// The first sentence of a doc comment.
    Summary,
    /// The first sentence of a function's doc comment, unless the function is a test.
    Function,
    /// A doc comment, its summary included.
    DocComment,
    /// A comment within code.
    Comment,
    /// The message of an error.
    Error,
}

/// A sentence without its code.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Sentence {
    pub(super) kind: Kind,
    /// Line of the paragraph that has it, from 1.
    pub(super) line: usize,
    pub(super) text: String,
}

/// Return all sentences of a file.
pub(super) fn sentences(file: &str, text: &str) -> Result<Vec<Sentence>> {
    let mut found = vec![];
    match Path::new(file).extension().and_then(OsStr::to_str) {
        Some("md") => read_markdown(text, 1, Kind::Document, &mut found),
        Some("rs") => {
            read_doc_comments(text, &mut found);
            read_comments(text, &mut found);
            let tokens = TokenStream::from_str(text).map_err(|error| anyhow!("{file}: {error}"))?;
            read_errors(tokens, &mut found);
        }
        _ => {}
    }
    Ok(found)
}

/// Adds the sentences of Markdown whose first line has that number.
fn read_markdown(text: &str, first_line: usize, kind: Kind, found: &mut Vec<Sentence>) {
    let mut paragraph = String::new();
    let mut start = 0;
    let mut is_code = false;
    for (event, range) in Parser::new(text).into_offset_iter() {
        match event {
            Event::Start(Tag::CodeBlock(_)) => is_code = true,
            Event::End(TagEnd::CodeBlock) => is_code = false,
            Event::Text(words) if !is_code => {
                if paragraph.is_empty() {
                    start = range.start;
                }
                paragraph.push_str(&words);
            }
            // Its place in the sentence matters, its text does not.
            Event::Code(_) => {
                if paragraph.is_empty() {
                    start = range.start;
                }
                paragraph.push_str("`..`");
            }
            Event::SoftBreak | Event::HardBreak => paragraph.push(' '),
            Event::End(TagEnd::Paragraph | TagEnd::Item | TagEnd::Heading(_)) => {
                let line = first_line + text[..start].matches('\n').count();
                split(&std::mem::take(&mut paragraph), line, kind, found);
            }
            Event::Start(_)
            | Event::End(_)
            | Event::Text(_)
            | Event::InlineMath(_)
            | Event::DisplayMath(_)
            | Event::Html(_)
            | Event::InlineHtml(_)
            | Event::FootnoteReference(_)
            | Event::Rule
            | Event::TaskListMarker(_) => {}
        }
    }
}

/// Adds the sentences of doc comments.
fn read_doc_comments(text: &str, found: &mut Vec<Sentence>) {
    let mut comment = String::new();
    let mut first_line = 0;
    // One more line ends the last comment.
    let lines: Vec<_> = text.lines().map(str::trim_start).chain([""]).collect();
    for (number, line) in (1..).zip(&lines) {
        let doc = line.strip_prefix("///").or_else(|| line.strip_prefix("//!"));
        if let Some(doc) = doc {
            if comment.is_empty() {
                first_line = number;
            }
            comment += doc.strip_prefix(' ').unwrap_or(doc);
            comment.push('\n');
        } else if !comment.is_empty() {
            let before = found.len();
            read_markdown(&comment, first_line, Kind::DocComment, found);
            if let Some(Sentence { line, text, .. }) = found.get(before) {
                let (line, text) = (*line, text.clone());
                if is_function(&lines[number - 1..]) {
                    found.push(Sentence { kind: Kind::Function, line, text: text.clone() });
                }
                found.push(Sentence { kind: Kind::Summary, line, text });
            }
            comment.clear();
        }
    }
}

/// Adds the sentences of comments that are not documentation.
fn read_comments(text: &str, found: &mut Vec<Sentence>) {
    let mut comment = String::new();
    // One more line ends the last comment.
    for (number, line) in (1..).zip(text.lines().map(str::trim_start).chain([""])) {
        let plain = line.strip_prefix("//").filter(|rest| !rest.starts_with(['/', '!']));
        if let Some(plain) = plain {
            comment += plain.trim();
            comment.push(' ');
        } else if !comment.is_empty() {
            split(&std::mem::take(&mut comment), number - 1, Kind::Comment, found);
        }
    }
}

/// Return `true` if the item that begins with these lines is a function and not a test.
fn is_function(lines: &[&str]) -> bool {
    let attributes = lines.iter().take_while(|line| line.starts_with("#[")).count();
    let (attributes, item) = lines.split_at(attributes);
    let words = item.first().into_iter().flat_map(|line| line.split_whitespace());
    let mut words = words.skip_while(|word| {
        ["pub", "const", "unsafe", "async", "extern"].iter().any(|it| word.starts_with(it))
            || word.ends_with(')')
            || word.starts_with('"')
    });
    words.next() == Some("fn") && !attributes.contains(&"#[test]")
}

/// Adds the messages of errors.
fn read_errors(tokens: TokenStream, found: &mut Vec<Sentence>) {
    let mut last_word = String::new();
    for token in tokens {
        match token {
            TokenTree::Ident(word) => last_word = word.to_string(),
            TokenTree::Group(group) => {
                if ERROR_MACROS.contains(&&*last_word)
                    && let Some((line, text)) = first_string(group.stream())
                {
                    found.push(Sentence { kind: Kind::Error, line, text });
                }
                last_word.clear();
                read_errors(group.stream(), found);
            }
            // `!` stands between a macro's name and its group.
            TokenTree::Punct(punct) if punct.as_char() == '!' => {}
            TokenTree::Punct(_) | TokenTree::Literal(_) => last_word.clear(),
        }
    }
}

/// Return the first string among tokens, with its line.
fn first_string(tokens: TokenStream) -> Option<(usize, String)> {
    tokens.into_iter().find_map(|token| {
        let TokenTree::Literal(literal) = token else { return None };
        let text = literal.to_string();
        let text = text.strip_prefix('"')?.strip_suffix('"')?;
        Some((literal.span().start().line, text.to_owned()))
    })
}

/// Adds the sentences of a paragraph.
fn split(paragraph: &str, line: usize, kind: Kind, found: &mut Vec<Sentence>) {
    let mut rest = paragraph.trim();
    while !rest.is_empty() {
        let end = ends(rest).find(|&end| rest[end..].starts_with(' ')).unwrap_or(rest.len());
        let (sentence, after) = rest.split_at(end);
        found.push(Sentence { kind, line, text: sentence.to_owned() });
        rest = after.trim_start();
    }
}

/// Return the possible ends of sentences: after a full stop, a question or an exclamation mark.
fn ends(text: &str) -> impl Iterator<Item = usize> + '_ {
    text.match_indices(['.', '?', '!']).map(|(place, _)| place + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_have_the_line_of_their_paragraph() {
        let text = "//! One. Two\n//! goes on.\n//!\n//! Three.\n";
        let found = sentences("a.rs", text).unwrap();
        let shown: Vec<_> = found.iter().map(|it| (it.kind, it.line, it.text.as_str())).collect();
        assert_eq!(
            shown,
            [
                (Kind::DocComment, 1, "One."),
                (Kind::DocComment, 1, "Two goes on."),
                (Kind::DocComment, 4, "Three."),
                (Kind::Summary, 1, "One."),
            ]
        );
    }

    #[test]
    fn summaries_of_functions_are_found() {
        let function = "/// One.\n#[must_use]\npub(in crate::a) const unsafe fn f() {}\n";
        for (text, expected) in [
            (function, true),
            ("/// One.\nfn f() {}\n", true),
            ("/// One.\n#[test]\nfn f() {}\n", false),
            ("/// One.\npub struct S;\n", false),
            ("/// One.\npub const F: fn() = f;\n", false),
        ] {
            let found = sentences("a.rs", text).unwrap();
            assert_eq!(found.iter().any(|it| it.kind == Kind::Function), expected, "{text}");
        }
    }

    #[test]
    fn comments_within_code_are_sentences() {
        let code = "fn f() {\n    // One of\n    // two. Two.\n    f(); // no comment of its own line\n}\n";
        let found = sentences("a.rs", code).unwrap();
        let texts: Vec<_> = found.iter().map(|it| (it.kind, &*it.text, it.line)).collect();
        let comment = |text| (Kind::Comment, text, 3);
        assert_eq!(texts, [comment("One of two."), comment("Two.")]);
    }

    #[test]
    fn items_and_headings_are_sentences() {
        let found = sentences("a.md", "# Title\n\n- one\n- two `x`\n").unwrap();
        let shown: Vec<_> = found.iter().map(|it| (it.line, it.text.as_str())).collect();
        assert_eq!(shown, [(1, "Title"), (3, "one"), (4, "two `..`")]);
    }
}
