//! The book: which documents are its pages, and where each goes.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context as _, Result, bail};

use super::links::{self, Documents};
use super::markdown::table;
use super::summary;

/// The table of contents.
pub(crate) const SUMMARY: &str = "docs/SUMMARY.md";
/// The page that lists the files that come with the book.
const FILES: &str = "docs/files.md";

/// Documents that have a page each, below one that lists them.
pub(crate) const COLLECTIONS: [Collection; 2] = [
    Collection {
        index: "docs/papers.md",
        title: "Papers",
        introduction: "The experiments of five papers, run again by `thermocline reproduce`: \
                       their numbers beside ours, and which of their claims we confirm.",
        prefix: "papers/",
        suffix: "/README.md",
    },
    Collection {
        index: "docs/records.md",
        title: "Records",
        introduction: "What was measured: when, at which commit, on which machine, by which command.",
        prefix: "record/",
        suffix: ".md",
    },
];

/// Documents that have a page each, below one that lists them.
pub(crate) struct Collection {
    index: &'static str,
    title: &'static str,
    introduction: &'static str,
    prefix: &'static str,
    suffix: &'static str,
}

/// All pages, with links that lead to documents of the project.
pub(crate) struct Book {
    documents: Documents,
    /// Place of each page below the folder of the book's source.
    places: BTreeMap<String, String>,
    /// Files of the project that come with the book.
    files: BTreeSet<String>,
    links: usize,
}

impl Collection {
    /// Return the page that lists them, and their paths.
    pub(crate) fn index(&self, documents: &Documents) -> ((String, String), Vec<String>) {
        let is_of_it =
            |path: &&String| path.starts_with(self.prefix) && path.ends_with(self.suffix);
        let paths: Vec<String> = documents.keys().filter(is_of_it).cloned().collect();
        let row = |path: &String| {
            let title = links::title(&documents[path]).unwrap_or_else(|| path.clone());
            vec![format!("[{title}]({})", links::relative(self.index, path))]
        };
        let rows: Vec<Vec<String>> = paths.iter().map(row).collect();
        let Self { title, introduction, .. } = self;
        let text = format!("# {title}\n\n{introduction}\n\n{}", table(&["page"], &rows));
        ((self.index.to_owned(), text), paths)
    }
}

impl Book {
    /// Checks everything, and fails with all that is wrong.
    ///
    /// `files` are those of the project, `children` the pages that come below others.
    pub(crate) fn new(
        mut documents: Documents,
        files: &[String],
        children: &BTreeMap<String, Vec<String>>,
    ) -> Result<Self> {
        let contents = summary::expanded(SUMMARY, &documents, children);
        documents.insert(SUMMARY.to_owned(), contents);
        documents.insert(FILES.to_owned(), String::new());
        let (pages, mut faults) = summary::pages(SUMMARY, &documents[SUMMARY], &documents);
        let linked = linked(&documents, &pages);
        documents.insert(FILES.to_owned(), list(&linked, files));
        let exists = |path: &str| is_there(path, files);
        let found = links::faults(&documents, exists);
        faults.extend(found.lines);
        let mut places = BTreeMap::from([(SUMMARY.to_owned(), "SUMMARY.md".to_owned())]);
        let mut taken = BTreeMap::new();
        for page in &pages {
            let place = place(page);
            if let Some(other) = taken.insert(place.clone(), page) {
                faults.push(format!("{page}: would be `{place}` in the book, as {other} is"));
            }
            places.insert(page.clone(), place);
        }
        for path in linked.iter().filter(|path| links::is_document(path)) {
            if documents.contains_key(path) {
                faults.push(format!("{path}: pages link to it, so it needs a line in {SUMMARY}"));
            }
        }
        if !faults.is_empty() {
            bail!("the book has faults:\n{}", faults.join("\n"));
        }
        documents.retain(|path, _| places.contains_key(path));
        let files = files.iter().filter(|file| linked.iter().any(|path| is_within(file, path)));
        let files = files.filter(|file| !places.contains_key(*file)).cloned().collect();
        let links = documents.values().map(|text| links::links(text).len()).sum();
        Ok(Self { documents, places, files, links })
    }

    /// Return the number of pages.
    pub(crate) fn pages(&self) -> usize {
        self.places.len() - 1
    }

    /// Return the number of links its pages have.
    pub(crate) const fn links(&self) -> usize {
        self.links
    }

    /// Return the number of files that come with it.
    pub(crate) fn files(&self) -> usize {
        self.files.len()
    }

    /// Return the pages by their places in the book, with links between these.
    pub(crate) fn placed(&self) -> Documents {
        let placed = |(path, text): (&String, &String)| {
            let place = &self.places[path];
            let lead = |destination: &str| {
                let target = links::resolve(path, destination)?;
                if target.path == *path {
                    return None;
                }
                let (target_place, anchor) = self.place_of(&target);
                let way = links::relative(place, &target_place);
                Some(if anchor.is_empty() { way } else { format!("{way}#{anchor}") })
            };
            (place.clone(), links::redirected(text, lead))
        };
        self.documents.iter().map(placed).collect()
    }

    /// Return the place of a target in the book: a page, a file, or the list of a folder's files.
    fn place_of(&self, target: &links::Target) -> (String, String) {
        if let Some(place) = self.places.get(&target.path) {
            (place.clone(), target.anchor.clone())
        } else if self.files.contains(&target.path) {
            (format!("files/{}", target.path), String::new())
        } else {
            (place(FILES), links::anchor(&target.path))
        }
    }

    /// Writes all pages and files below a folder, and checks the links of what was written.
    pub(crate) fn write(&self, root: &Path, folder: &Path) -> Result<()> {
        let placed = self.placed();
        for (place, text) in &placed {
            let path = folder.join(place);
            std::fs::create_dir_all(path.parent().context("a page lies in a folder")?)
                .with_context(|| format!("cannot make the folder of `{}`", path.display()))?;
            std::fs::write(&path, text)
                .with_context(|| format!("cannot write `{}`", path.display()))?;
        }
        for file in &self.files {
            let path = folder.join("files").join(file);
            std::fs::create_dir_all(path.parent().context("a file lies in a folder")?)
                .with_context(|| format!("cannot make the folder of `{}`", path.display()))?;
            std::fs::copy(root.join(file), &path)
                .with_context(|| format!("cannot write `{}`", path.display()))?;
        }
        let found = links::faults(&placed, |path| folder.join(path).is_file());
        if !found.lines.is_empty() {
            bail!("links are led astray:\n{}", found.lines.join("\n"));
        }
        Ok(())
    }
}

/// Return the place of a page: those of `docs/` go to the top, a folder's README in place of its
/// folder.
fn place(path: &str) -> String {
    let path = path.strip_prefix("docs/").unwrap_or(path);
    match path.strip_suffix("/README.md") {
        Some(folder) => format!("{folder}.md"),
        None if path.contains('/') => path.to_owned(),
        None => path.to_lowercase(),
    }
}

/// Return the targets of the pages' links that are not pages.
fn linked(documents: &Documents, pages: &[String]) -> BTreeSet<String> {
    let targets = pages.iter().flat_map(|page| {
        let links = links::links(&documents[page]);
        links.into_iter().filter_map(|link| links::resolve(page, &link.destination))
    });
    targets.map(|target| target.path).filter(|path| !pages.contains(path)).collect()
}

/// Return the page that lists the files that come with the book, by folder.
fn list(linked: &BTreeSet<String>, files: &[String]) -> String {
    let mut folders: BTreeMap<&str, Vec<&String>> = BTreeMap::new();
    for path in linked {
        if files.contains(path) {
            folders
                .entry(path.rsplit_once('/').map_or("", |(folder, _)| folder))
                .or_default()
                .push(path);
        } else {
            folders
                .entry(path)
                .or_default()
                .extend(files.iter().filter(|file| is_within(file, path)));
        }
    }
    let mut text = String::from(
        "# Files\n\nFiles of the project that pages of this book refer to, by folder; they come with it.\n",
    );
    for (folder, mut files) in folders {
        files.sort();
        files.dedup();
        text += &format!("\n## {}\n\n", if folder.is_empty() { "The root" } else { folder });
        for file in files {
            text += &format!("- [{file}]({})\n", links::relative(FILES, file));
        }
    }
    text
}

/// Return `true` if a path is a file or a folder of the project.
fn is_there(path: &str, files: &[String]) -> bool {
    !path.is_empty() && files.iter().any(|file| is_within(file, path))
}

/// Return `true` if a file is that, or lies in that folder.
fn is_within(file: &str, path: &str) -> bool {
    file.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}
