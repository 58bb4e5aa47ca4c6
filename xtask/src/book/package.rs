//! The reference of the Python package: every public name, from its sources, which are not imported.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, bail, ensure};
use serde::Deserialize;

use super::docstring::{self, Names};
use super::links;
use super::markdown::table;

const INDEX: &str = "docs/api.md";
/// The sources of the package.
const SOURCES: &str = "python/thermocline";
/// Reads them.
const READER: &str = include_str!("package.py");
/// Page of the modules whose own names are not public.
const TYPES: (&str, &str) = ("types", "Types of arguments");

/// Public parts of a package.
#[derive(Deserialize)]
pub(crate) struct Package {
    name: String,
    doc: Option<String>,
    modules: Vec<Module>,
}

/// A module that public names come from.
#[derive(Deserialize)]
struct Module {
    name: String,
    doc: Option<String>,
    items: Vec<Item>,
}

/// A class, function, method, property or type.
#[derive(Deserialize)]
struct Item {
    name: String,
    signature: String,
    doc: Option<String>,
    #[serde(default)]
    bases: Vec<String>,
    #[serde(default)]
    members: Vec<Self>,
}

/// Return a page for each module, behind one that lists all names.
pub(crate) fn pages(root: &Path) -> Result<Vec<(String, String)>> {
    let (python, _) = crate::python::interpreter()?;
    let output = Command::new(&python)
        .args(["-I", "-c", READER])
        .arg(root.join(SOURCES))
        .output()
        .with_context(|| format!("cannot start `{}`", python.display()))?;
    ensure!(
        output.status.success(),
        "cannot read `{SOURCES}`:\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let package: Package = serde_json::from_slice(&output.stdout)
        .context("`xtask/src/book/package.py` prints something else")?;
    package.pages()
}

impl Package {
    fn pages(&self) -> Result<Vec<(String, String)>> {
        let names = self.names();
        let (mut index, mut pages) = (self.introduction(&names)?, BTreeMap::new());
        for module in &self.modules {
            let page = module.page();
            let rows = module.items.iter().map(|item| {
                let name = format!("[`{}`]({})", item.name, names.way(INDEX, &item.name)?);
                let summary = docstring::summary(item.doc(&item.name)?);
                Ok(vec![name, docstring::inline(&summary, &names, INDEX, "")?])
            });
            let rows = rows.collect::<Result<Vec<_>>>()?;
            let text = pages.entry(page.clone()).or_insert_with(|| (String::new(), vec![]));
            if text.0.is_empty() {
                text.0 = module.introduction(&names)?;
            }
            text.1.extend(rows);
            for item in &module.items {
                text.0 += &item.describe(&page, "", &names)?;
            }
        }
        for (text, rows) in pages.values() {
            let title = links::title(text).unwrap_or_default();
            index += &format!("\n## {title}\n\n{}", table(&["name", "what it is"], rows));
        }
        let pages = pages.into_iter().map(|(page, (text, _))| (page, text));
        Ok([(INDEX.to_owned(), index)].into_iter().chain(pages).collect())
    }

    /// Return the place where each name is described, methods by `Class.method`.
    fn names(&self) -> Names {
        let mut names = Names::default();
        for module in &self.modules {
            for item in &module.items {
                names.add(&item.name, &module.page());
                for member in &item.members {
                    names.add(&format!("{}.{}", item.name, member.name), &module.page());
                }
            }
        }
        names
    }

    fn introduction(&self, names: &Names) -> Result<String> {
        let Self { name, doc, .. } = self;
        let doc = doc.as_deref().with_context(|| format!("`{name}` has no docstring"))?;
        Ok(format!(
            "# The Python package\n\n\
             Every public name of `{name}`, as its sources have it; [the guide](python.md) shows how they go together.\n\n{}",
            docstring::markdown(doc, names, INDEX, "")?
        ))
    }
}

impl Module {
    fn is_private(&self) -> bool {
        self.name.starts_with('_')
    }

    fn page(&self) -> String {
        let name = if self.is_private() { TYPES.0 } else { &self.name };
        format!("docs/api/{name}.md")
    }

    /// Return the title, and what the module says of itself. The title is its first sentence, up to
    /// a comma or a colon.
    fn introduction(&self, names: &Names) -> Result<String> {
        if self.is_private() {
            return Ok(format!("# {}\n", TYPES.1));
        }
        let name = &self.name;
        let doc = self.doc.as_deref().with_context(|| format!("`{name}` has no docstring"))?;
        let summary = docstring::summary(doc);
        let title = summary.split([':', ',', '.']).next().unwrap_or(&summary);
        Ok(format!("# {title}\n\n{}", docstring::markdown(doc, names, &self.page(), "")?))
    }
}

impl Item {
    fn doc(&self, name: &str) -> Result<&str> {
        match self.doc.as_deref() {
            Some(doc) if !doc.trim().is_empty() => Ok(doc),
            _ => bail!("`{name}` has no docstring"),
        }
    }

    /// Return the section of a name, and below it those of what it has.
    fn describe(&self, page: &str, class: &str, names: &Names) -> Result<String> {
        let Self { name, signature, bases, members, .. } = self;
        let (name, mark) = match class {
            "" => (name.clone(), "##"),
            _ => (format!("{class}.{name}"), "###"),
        };
        let mut text = format!("\n{mark} {name}\n\n```python\n{signature}\n```\n\n");
        let class = if members.is_empty() { class } else { &self.name };
        if !bases.is_empty() {
            let base = |base: &String| match names.way(page, base) {
                Ok(way) => format!("[`{base}`]({way})"),
                Err(_) => format!("`{base}`"),
            };
            let bases: Vec<String> = bases.iter().map(base).collect();
            text += &format!("It is a {}.\n\n", bases.join(" and a "));
        }
        text += &docstring::markdown(self.doc(&name)?, names, page, class)
            .with_context(|| format!("in the docstring of `{name}`"))?;
        for member in members {
            text += &member.describe(page, &self.name, names)?;
        }
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACKAGE: &str = r#"{
        "name": "zoo", "doc": "A zoo.\n\nSee :func:`feed`.",
        "modules": [
            {"name": "_kinds", "doc": "Not shown.", "items": [
                {"name": "Kind", "signature": "Kind = str", "doc": "A kind."}]},
            {"name": "cats", "doc": "Cats: soft ones.\n\nMore.", "items": [
                {"name": "Cat", "signature": "Cat(kind: Kind)", "doc": "A cat.", "bases": ["Animal"],
                 "members": [{"name": "feed", "signature": "Cat.feed()", "doc": "Feed it."}]},
                {"name": "feed", "signature": "feed(cat: Cat)", "doc": "Feed a :class:`Cat`."}]}]
    }"#;

    #[test]
    fn a_package_has_a_page_per_module_and_one_for_types() {
        let package: Package = serde_json::from_str(PACKAGE).unwrap();
        let pages = package.pages().unwrap();
        let paths: Vec<&str> = pages.iter().map(|(path, _)| path.as_str()).collect();
        assert_eq!(paths, [INDEX, "docs/api/cats.md", "docs/api/types.md"]);
        let index = &pages[0].1;
        assert!(index.contains("See [`feed`](api/cats.md#feed)."), "{index}");
        let row = "\n## Cats\n\n| name | what it is |\n| --- | --- |\n| [`Cat`](api/cats.md#cat) | A cat. |";
        assert!(index.contains(row), "{index}");
        let cats = "# Cats\n\nCats: soft ones.\n\nMore.\n\
            \n## Cat\n\n```python\nCat(kind: Kind)\n```\n\nIt is a `Animal`.\n\nA cat.\n\
            \n### Cat.feed\n\n```python\nCat.feed()\n```\n\nFeed it.\n\
            \n## feed\n\n```python\nfeed(cat: Cat)\n```\n\nFeed a [`Cat`](#cat).\n";
        assert_eq!(pages[1].1, cats);
    }

    #[test]
    fn what_has_no_docstring_is_refused() {
        let text = PACKAGE.replace("Feed it.", "");
        let package: Package = serde_json::from_str(&text).unwrap();
        assert_eq!(package.pages().unwrap_err().to_string(), "`Cat.feed` has no docstring");
    }

    #[test]
    fn our_package_is_described_as_a_whole() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let pages = pages(root).unwrap();
        let text: String = pages.iter().map(|(_, text)| text.as_str()).collect();
        for heading in ["## compare", "## Trace", "### Trace.open", "## Size", "### Result.plot"] {
            assert!(text.contains(&format!("\n{heading}\n")), "{heading}");
        }
        let init = std::fs::read_to_string(root.join(SOURCES).join("__init__.py")).unwrap();
        let names =
            init.lines().filter_map(|line| line.strip_prefix("    \"")?.strip_suffix("\","));
        for name in names.filter(|name| !name.starts_with("__")) {
            assert!(pages[0].1.contains(&format!("[`{name}`](api/")), "{name}");
        }
        let found = links::faults(&pages.into_iter().collect(), |path| root.join(path).exists());
        assert_eq!(found.lines, [""; 0]);
        assert!(found.links > 100, "{}", found.links);
    }
}
