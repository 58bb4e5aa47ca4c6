//! `cargo xtask book`: the source of the documentation site, from `docs/`, the other documents of the
//! project, the registry, the headers of modules, and what the program says.
//!
//! Every page has a path in the project, generated ones too: they are made as if they lay in `docs/`.
//! So links are written, and checked, as in any document. When the pages are written for mdBook,
//! each goes to a place of its own, and all links are led there.

mod commands;
mod devices;
mod docstring;
mod documents;
mod entries;
mod figures;
mod links;
mod markdown;
mod modules;
mod package;
mod program;
mod summary;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};

use self::documents::Book;
use self::links::Documents;
use self::program::Program;
use crate::console::{Session, copy_project};

/// Pages whose commands are run, each in a clean copy of the project.
const RUN_PAGES: [&str; 4] =
    ["docs/guide.md", "docs/tour.md", "docs/choose-a-policy.md", "docs/size-a-cache.md"];
/// Maximum time of a page's commands: the guide promises 15 minutes.
const PAGE_PATIENCE: Duration = Duration::from_mins(15);
/// The settings of mdBook, and where it finds them.
const SETTINGS: [&str; 2] = ["docs/book.toml", "book.toml"];

/// Writes the source of the book to `book` in the target folder, checks it, and renders it if wanted.
pub(crate) fn make(root: &Path, built: Option<&Path>, is_rendered: bool) -> Result<()> {
    if is_rendered {
        mdbook(&["--version"])?;
    }
    let program = Program::new(root, built)?;
    let files = crate::files(root)?;
    let mut documents = read(root, &files)?;
    let children = generate(root, &program, &mut documents)?;
    let book = Book::new(documents, &files, &children)?;
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or(root.join("target"), PathBuf::from);
    let folder = target.join("book");
    write(root, &book, &target, &folder)?;
    for page in RUN_PAGES {
        run_page(root, page, &program, &target)?;
    }
    let (pages, links, files) = (book.pages(), book.links(), book.files());
    eprintln!("book: {pages} pages, {links} links, {files} files: `{}`", folder.display());
    if is_rendered { render(&folder) } else { Ok(()) }
}

/// Return all documents of the project.
fn read(root: &Path, files: &[String]) -> Result<Documents> {
    let mut documents = Documents::new();
    for path in files.iter().filter(|path| links::is_document(path)) {
        let text = std::fs::read_to_string(root.join(path))
            .with_context(|| format!("cannot read `{path}`"))?;
        documents.insert(path.clone(), text);
    }
    Ok(documents)
}

/// Adds the pages that nobody writes; returns which pages come below which in the table of contents.
fn generate(
    root: &Path,
    program: &Program,
    documents: &mut Documents,
) -> Result<BTreeMap<String, Vec<String>>> {
    let mut children = BTreeMap::new();
    let mut sections = vec![];
    for section in entries::SECTIONS {
        sections.push(section.pages(root, program)?);
    }
    sections.push(vec![devices::page(program)?]);
    sections.push(commands::pages(program)?);
    sections.push(package::pages(root)?);
    for pages in sections {
        let mut paths = pages.iter().map(|(path, _)| path.clone());
        let index = paths.next().context("a section has an index")?;
        children.insert(index, paths.collect());
        for (path, text) in pages {
            add(documents, path, text)?;
        }
    }
    for collection in documents::COLLECTIONS {
        let ((path, text), below) = collection.index(documents);
        children.insert(path.clone(), below);
        add(documents, path, text)?;
    }
    Ok(children)
}

fn add(documents: &mut Documents, path: String, text: String) -> Result<()> {
    ensure!(
        !documents.contains_key(&path),
        "`{path}` is generated; give the written one another name"
    );
    documents.insert(path, text);
    Ok(())
}

/// Writes the book to a folder that replaces the one before as a whole.
fn write(root: &Path, book: &Book, target: &Path, folder: &Path) -> Result<()> {
    std::fs::create_dir_all(target).with_context(|| format!("`{}`", target.display()))?;
    let new = tempfile::Builder::new()
        .prefix("book-")
        .tempdir_in(target)
        .with_context(|| format!("cannot make a folder in `{}`", target.display()))?;
    std::fs::copy(root.join(SETTINGS[0]), new.path().join(SETTINGS[1]))
        .with_context(|| format!("cannot copy `{}`", SETTINGS[0]))?;
    book.write(root, &new.path().join("src"))?;
    if folder.exists() {
        std::fs::remove_dir_all(folder)
            .with_context(|| format!("cannot remove `{}`", folder.display()))?;
    }
    std::fs::rename(new.keep(), folder)
        .with_context(|| format!("cannot make `{}`", folder.display()))
}

/// Runs a page's commands in a clean copy of the project.
fn run_page(root: &Path, name: &str, program: &Program, target: &Path) -> Result<()> {
    let text = std::fs::read_to_string(root.join(name))
        .with_context(|| format!("cannot read `{name}`"))?;
    let copy = tempfile::tempdir().context("cannot make a folder for the copy")?;
    copy_project(root, copy.path())?;
    let programs = Some(program.folder()?);
    let (folder, patience) = (copy.path(), PAGE_PATIENCE);
    let built = None;
    Session { name, text: &text, folder, programs, built, target, patience }.run()
}

/// Renders it.
fn render(folder: &Path) -> Result<()> {
    mdbook(&["build", folder.to_str().context("the target folder is not named in UTF-8")?])?;
    eprintln!("book: open `{}`", folder.join("html/index.html").display());
    Ok(())
}

/// Runs the `mdbook` that is installed.
fn mdbook(words: &[&str]) -> Result<()> {
    match Command::new("mdbook").args(words).status() {
        Ok(status) => {
            ensure!(status.success(), "`mdbook {}` failed", words.join(" "));
            Ok(())
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            bail!("`mdbook` is not installed; `cargo install --locked mdbook` does it")
        }
        Err(error) => Err(error).context("cannot start mdbook"),
    }
}
