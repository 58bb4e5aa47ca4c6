//! The pages of policies, identifiers and write buffers.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context as _, Result};
use thermocline_core::hotness;
use thermocline_core::registry::{self, BUFFERS};

use super::figures::Figures;
use super::links::relative;
use super::markdown::{capital, table};
use super::modules::{self, Header};
use super::program::{Listed, Parameter, Program};

/// Registered items, by registry.
pub(crate) const SECTIONS: [Section; 3] = [
    Section {
        name: "policies",
        title: "Policies",
        introduction: "Which page is where: every policy that `--policy` takes. \
                       `--policy all` compares them.",
        better: "miss less often",
        modules: || registry::entries().map(|entry| (&*entry.name, entry.module)).collect(),
        figures: Figures::of_policies,
        shown: Some(&["lru", "lru-exclusive", "opt"]),
    },
    Section {
        name: "identifiers",
        title: "Hot-data identifiers",
        introduction: "Which pages are hot: every identifier that `thermocline hot --identifier` and \
                       `--admit` take.",
        better: "are false less often",
        modules: || {
            let entries = hotness::registry::entries().iter();
            entries.map(|entry| (entry.name, entry.module)).collect()
        },
        figures: Figures::of_identifiers,
        shown: None,
    },
    Section {
        name: "buffers",
        title: "Write buffers",
        introduction: "What an SSD keeps in its RAM: every policy that `thermocline buffer --policy` \
                       takes.",
        better: "cause fewer erases",
        modules: || BUFFERS.iter().map(|entry| (&*entry.name, entry.module)).collect(),
        figures: Figures::of_buffers,
        shown: None,
    },
];

/// The pages of one registry.
pub(crate) struct Section {
    /// The command that lists it, and the folder of its pages.
    name: &'static str,
    title: &'static str,
    introduction: &'static str,
    /// Property of those that come before another one.
    better: &'static str,
    /// The name of each, and the module that it is written in.
    modules: fn() -> Vec<(&'static str, &'static str)>,
    figures: fn(&Program) -> Result<Figures>,
    /// Items whose figures are beside each one's; all, if `None`.
    shown: Option<&'static [&'static str]>,
}

/// All that the pages of a section are made of.
struct Material<'a> {
    section: &'a Section,
    all: Vec<Listed>,
    files: BTreeMap<String, String>,
    headers: BTreeMap<String, Header>,
    figures: Figures,
}

impl Section {
    /// Return a page for each, behind one that lists them.
    pub(crate) fn pages(&self, root: &Path, program: &Program) -> Result<Vec<(String, String)>> {
        let all: Vec<Listed> = program.json(self.name)?;
        let file =
            |(name, module): (&str, &str)| Ok((name.to_owned(), modules::file(root, module)?));
        let files: BTreeMap<String, String> =
            (self.modules)().into_iter().map(file).collect::<Result<_>>()?;
        let headers = modules::headers(root, &files)?;
        let figures = (self.figures)(program)?;
        let material = Material { section: self, all, files, headers, figures };
        let mut pages = vec![(format!("docs/{}.md", self.name), material.index())];
        for one in &material.all {
            pages.push((self.path(&one.name), material.page(one)?));
        }
        Ok(pages)
    }

    fn path(&self, name: &str) -> String {
        format!("docs/{}/{name}.md", self.name)
    }
}

impl Material<'_> {
    /// Return one line each, and all figures.
    fn index(&self) -> String {
        let Section { name, title, introduction, .. } = self.section;
        let mut text = format!("# {title}\n\n{introduction}\n\n");
        let mut kinds: Vec<Option<&str>> = vec![];
        for one in &self.all {
            if !kinds.contains(&one.tiers.as_deref()) {
                kinds.push(one.tiers.as_deref());
            }
        }
        for kind in kinds {
            if let Some(kind) = kind.filter(|_| name == &"policies") {
                text += &format!("## On {kind}\n\n");
            }
            let row = |one: &Listed| {
                let link = format!("[`{0}`]({name}/{0}.md)", one.name);
                vec![link, one.summary.clone(), one.source.clone()]
            };
            let those = self.all.iter().filter(|one| one.tiers.as_deref() == kind);
            let rows: Vec<Vec<String>> = those.map(row).collect();
            text += &table(&["name", "what it does", "source"], &rows);
            text.push('\n');
        }
        text += "## On the bundled trace\n\n";
        text += &self.conditions(&format!("docs/{name}.md"));
        text += &self.figures.table(|one| Some(format!("[`{one}`]({name}/{one}.md)")));
        text
    }

    /// Return one page.
    fn page(&self, one: &Listed) -> Result<String> {
        let name = &one.name;
        let path = self.section.path(name);
        let file = self.files.get(name).with_context(|| format!("`{name}` is not registered"))?;
        let header = &self.headers[file];
        let plain = |text: &str| modules::without_item_links(text, |file| self.link(&path, file));
        let mut text = format!("# {name}\n\n{}.\n\n", capital(&one.summary));
        let source = format!("[`{file}`]({})", relative(&path, file));
        let mut facts = vec![vec!["published".to_owned(), one.source.clone()]];
        facts.extend(one.tiers.iter().map(|tiers| vec!["runs on".to_owned(), tiers.clone()]));
        facts.extend(one.clients.iter().map(|clients| vec!["clients".to_owned(), clients.clone()]));
        facts.push(vec!["source code".to_owned(), source]);
        let siblings = self.siblings(name, file);
        if !siblings.is_empty() {
            let links: Vec<String> =
                siblings.iter().map(|sibling| format!("[`{sibling}`]({sibling}.md)")).collect();
            facts.push(vec!["in the same module".to_owned(), links.join(", ")]);
        }
        text += &table(&["", ""], &facts);
        write!(text, "\n## Idea\n\n{}\n", plain(&header.title))?;
        if !header.idea.is_empty() {
            write!(text, "\n{}\n", plain(&header.idea))?;
        }
        for (field, words) in &header.fields {
            write!(text, "\n## {field}\n\n{}\n", modules::enumerated(&plain(words)))?;
        }
        write!(text, "\n## Parameters\n\n{}", parameters(one))?;
        text += "\n## On the bundled trace\n\n";
        text += &self.conditions(&path);
        text += &self.figures.table(|other| self.figure_name(name, &siblings, other));
        let kin: Vec<&str> = self
            .all
            .iter()
            .filter(|other| other.tiers == one.tiers)
            .map(|other| other.name.as_str())
            .collect();
        let better = self.figures.better(name, &kin)?;
        let kind = one.tiers.as_ref().and_then(|tiers| tiers.split(" (").next());
        let kind = kind.map_or_else(String::new, |tiers| format!(" for {tiers}"));
        write!(
            text,
            "\nOf the {} {}{kind}, {better} {} here.\n\
             One trace and one size say little: compare on your own.\n",
            kin.len(),
            self.section.title.to_lowercase(),
            self.section.better,
        )?;
        Ok(text)
    }

    /// Return the name of a row of figures on the page of another, if it is shown there.
    fn figure_name(&self, name: &str, siblings: &[&str], other: &str) -> Option<String> {
        if name == other {
            return Some(format!("**`{other}`**"));
        }
        let is_shown = self.section.shown.is_none_or(|shown| shown.contains(&other));
        (is_shown || siblings.contains(&other)).then(|| format!("[`{other}`]({other}.md)"))
    }

    /// Return the others of a module.
    fn siblings(&self, name: &str, file: &str) -> Vec<&str> {
        let is_sibling = |other: &&str| {
            *other != name && self.files.get(*other).is_some_and(|other| other == file)
        };
        self.all.iter().map(|other| other.name.as_str()).filter(is_sibling).collect()
    }

    /// Return the target of a link to a module: the page of its definition, or its source.
    fn link(&self, path: &str, file: &str) -> String {
        let name =
            self.all.iter().find(|one| self.files.get(&one.name).is_some_and(|own| own == file));
        let target = name.map_or_else(|| file.to_owned(), |one| self.section.path(&one.name));
        relative(path, &target)
    }

    fn conditions(&self, path: &str) -> String {
        format!(
            "[The bundled trace]({}): {}\n\n```sh\nthermocline {}\n```\n\n",
            relative(path, "testdata/pgbench/README.md"),
            self.figures.conditions,
            self.figures.command
        )
    }
}

fn parameters(one: &Listed) -> String {
    let Some(example) = one.parameters.first() else { return "None.\n".to_owned() };
    let row = |parameter: &Parameter| {
        let Parameter { name, default, range, summary, source } = parameter;
        vec![
            format!("`{name}`"),
            format!("`{default}`"),
            range.clone(),
            summary.clone(),
            source.clone(),
        ]
    };
    let rows: Vec<Vec<String>> = one.parameters.iter().map(row).collect();
    let header = ["parameter", "default", "range", "what it does", "source of the default"];
    let Parameter { name, default, .. } = example;
    format!("{}\nSet one with `--param {}.{name}={default}`.\n", table(&header, &rows), one.name)
}
