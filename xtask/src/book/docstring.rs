//! Docstrings in the style of numpydoc, as Markdown.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result};

use super::links;

/// Places where public names are described.
#[derive(Default)]
pub(crate) struct Names(BTreeMap<String, String>);

impl Names {
    /// Add a name, and the page that has it under a heading of its own.
    pub(crate) fn add(&mut self, name: &str, page: &str) {
        self.0.insert(name.to_owned(), page.to_owned());
    }

    /// Return the way from a page to a name.
    pub(crate) fn way(&self, from: &str, name: &str) -> Result<String> {
        let page = self.0.get(name).with_context(|| format!("`{name}` is no public name"))?;
        let anchor = links::anchor(name);
        let path = if page == from { String::new() } else { links::relative(from, page) };
        Ok(format!("{path}#{anchor}"))
    }
}

/// Return the first paragraph, as one line.
pub(crate) fn summary(doc: &str) -> String {
    let lines = doc.trim().lines().take_while(|line| !line.trim().is_empty());
    lines.map(str::trim).collect::<Vec<_>>().join(" ")
}

/// Format a docstring for a page; `class` is that of a method.
pub(crate) fn markdown(doc: &str, names: &Names, page: &str, class: &str) -> Result<String> {
    let lines: Vec<&str> = doc.trim().lines().map(str::trim_end).collect();
    let is_rule = |line: &&str| line.len() > 2 && line.bytes().all(|byte| byte == b'-');
    let mut starts: Vec<usize> = vec![];
    starts.extend((1..lines.len()).filter(|&place| is_rule(&lines[place])).map(|place| place - 1));
    let first = starts.first().copied().unwrap_or(lines.len());
    let mut text = paragraphs(&lines[..first], names, page, class)?;
    for (number, &start) in starts.iter().enumerate() {
        let end = starts.get(number + 1).copied().unwrap_or(lines.len());
        let (title, body) = (lines[start], &lines[start + 2..end]);
        text += &format!("\n**{title}**\n\n");
        text += &match title {
            "Parameters" | "Attributes" | "Returns" | "Raises" => {
                entries(title, body, names, page, class)?
            }
            _ => paragraphs(body, names, page, class)?,
        };
    }
    Ok(text)
}

/// Format paragraphs with the examples among them.
fn paragraphs(lines: &[&str], names: &Names, page: &str, class: &str) -> Result<String> {
    let mut blocks = vec![];
    for block in lines.split(|line| line.is_empty()).filter(|block| !block.is_empty()) {
        let text = block.join("\n");
        blocks.push(if text.starts_with(">>>") {
            format!("```python\n{text}\n```\n")
        } else {
            inline(&text, names, page, class)? + "\n"
        });
    }
    Ok(blocks.join("\n"))
}

/// Format the entries of a section as a list: a line for each, and text that is indented below it.
fn entries(title: &str, lines: &[&str], names: &Names, page: &str, class: &str) -> Result<String> {
    let mut list = String::new();
    for line in lines.iter().filter(|line| !line.is_empty()) {
        if line.starts_with(' ') {
            list += &format!("  {}\n", inline(line.trim(), names, page, class)?);
            continue;
        }
        let head = match line.split_once(" : ") {
            Some((name, kind)) => format!("`{name}`: {}", inline(kind, names, page, class)?),
            None if title == "Raises" => match names.way(page, line) {
                Ok(way) => format!("[`{line}`]({way})"),
                Err(_) => format!("`{line}`"),
            },
            None => inline(line, names, page, class)?,
        };
        list += &format!("- {head}\\\n");
    }
    Ok(list)
}

/// Text in a line: code, and references to names as links.
pub(crate) fn inline(text: &str, names: &Names, page: &str, class: &str) -> Result<String> {
    let mut parts = text.replace("``", "`");
    let mut done = String::with_capacity(text.len());
    while let Some((before, rest)) = parts.split_once('`') {
        let (code, after) =
            rest.split_once('`').with_context(|| format!("a ` is not closed in: {text}"))?;
        let role = [":func:", ":class:", ":meth:", ":attr:"]
            .into_iter()
            .find(|role| before.ends_with(role));
        let plain = role.map_or(before, |role| &before[..before.len() - role.len()]);
        done += &plain.replace('*', "\\*");
        done += &match role {
            Some(_) if names.way(page, &format!("{class}.{code}")).is_ok() => {
                format!("[`{code}`]({})", names.way(page, &format!("{class}.{code}"))?)
            }
            Some(_) => format!("[`{code}`]({})", names.way(page, code)?),
            None if code.starts_with("docs/") && links::is_document(code) => {
                format!("[{code}]({})", links::relative(page, code))
            }
            None => format!("`{code}`"),
        };
        parts = after.to_owned();
    }
    Ok(done + &parts.replace('*', "\\*"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOC: &str = "Do a thing to :class:`Cat`, of 2**24.\n\nMore, as in ``docs/a.md``.\n\n\
        Parameters\n----------\nname : str, optional\n    The name; see :func:`feed`.\n\n\
        Raises\n------\nOuch\n    If it bites.\n\nExamples\n--------\n>>> feed()\n1\n\n>>> 2\n2\n";

    fn names() -> Names {
        let mut names = Names::default();
        names.add("Cat", "docs/api/cats.md");
        names.add("Cat.feed", "docs/api/cats.md");
        names.add("Ouch", "docs/api/errors.md");
        names
    }

    #[test]
    fn sections_become_lists_and_references_links() {
        let found = markdown(DOC, &names(), "docs/api/cats.md", "Cat").unwrap();
        let expected = "Do a thing to [`Cat`](#cat), of 2\\*\\*24.\n\nMore, as in [docs/a.md](../a.md).\n\
            \n**Parameters**\n\n- `name`: str, optional\\\n  The name; see [`feed`](#catfeed).\n\
            \n**Raises**\n\n- [`Ouch`](errors.md#ouch)\\\n  If it bites.\n\
            \n**Examples**\n\n```python\n>>> feed()\n1\n```\n\n```python\n>>> 2\n2\n```\n";
        assert_eq!(found, expected);
        assert_eq!(summary("One\nline.\n\nMore."), "One line.");
    }

    #[test]
    fn references_to_nothing_are_refused() {
        let refused = |text: &str| {
            inline(text, &names(), "docs/api.md", "").expect_err("it is wrong").to_string()
        };
        assert_eq!(refused("see :func:`feed`"), "`feed` is no public name");
        assert!(refused("an `open end").contains("not closed in: an `open end"));
    }
}
