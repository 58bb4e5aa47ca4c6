//! Faults of a book are found.

use std::collections::BTreeMap;

use super::documents::{Book, COLLECTIONS, SUMMARY};
use super::links::{self, Documents};
use super::modules::{self, Header};
use super::summary;

/// A table of contents that lists `a.md`, the generated `list.md`, and the files.
const CONTENTS: &str = "# Summary\n\n[A](a.md)\n\n## Part\n\n- [List](list.md)\n- [Log](../LOG.md)\n\n[Files](files.md)\n";

fn documents(pages: &[(&str, &str)]) -> Documents {
    let mut documents = Documents::from([
        (SUMMARY.into(), CONTENTS.into()),
        ("docs/a.md".into(), "# A\n\n[below](list/x.md#it-is), [log](../LOG.md)\n".into()),
        ("docs/list.md".into(), "# List\n".into()),
        ("docs/list/x.md".into(), "# X\n\n## `It` is!\n\n[source](../../src/x.rs)\n".into()),
        ("LOG.md".into(), "# Log\n\n[all](src), [A](docs/a.md)\n".into()),
    ]);
    documents.extend(pages.iter().map(|&(path, text)| (path.to_owned(), text.to_owned())));
    documents
}

fn book(pages: &[(&str, &str)]) -> anyhow::Result<Book> {
    let children = BTreeMap::from([("docs/list.md".into(), vec!["docs/list/x.md".into()])]);
    Book::new(documents(pages), &["src/x.rs".into(), "src/y.rs".into()], &children)
}

/// Return the faults of a book with these pages.
fn faults(pages: &[(&str, &str)]) -> String {
    book(pages).err().expect("it has faults").to_string()
}

#[test]
fn a_book_without_faults_has_all_pages_where_links_lead_to_them() {
    let book = book(&[]).unwrap();
    assert_eq!((book.pages(), book.files()), (5, 2));
    let placed = book.placed();
    let names: Vec<&str> = placed.keys().map(String::as_str).collect();
    assert_eq!(names, ["SUMMARY.md", "a.md", "files.md", "list.md", "list/x.md", "log.md"]);
    assert_eq!(placed["a.md"], "# A\n\n[below](list/x.md#it-is), [log](log.md)\n");
    assert!(placed["list/x.md"].contains("(../files/src/x.rs)"), "{}", placed["list/x.md"]);
    assert_eq!(placed["log.md"], "# Log\n\n[all](files.md#src), [A](a.md)\n");
    assert!(placed["files.md"].contains("\n## src\n\n- [src/x.rs](files/src/x.rs)\n- [src/y.rs]"));
    let contents = &placed["SUMMARY.md"];
    assert!(
        contents.contains("\n# Part\n\n- [List](list.md)\n  - [X](list/x.md)\n- [Log](log.md)\n")
    );
}

#[test]
fn a_written_book_has_every_page_and_file() {
    let (root, target) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    std::fs::create_dir(root.path().join("src")).unwrap();
    for name in ["x", "y"] {
        std::fs::write(root.path().join(format!("src/{name}.rs")), name).unwrap();
    }
    book(&[]).unwrap().write(root.path(), target.path()).unwrap();
    assert!(target.path().join("list/x.md").is_file());
    assert_eq!(std::fs::read_to_string(target.path().join("files/src/y.rs")).unwrap(), "y");
}

#[test]
fn a_link_to_nothing_is_found() {
    let text = "# A\n\ntext\n[b](b.md) and\n![c](c.png)\n";
    let faults = faults(&[("docs/a.md", text)]);
    assert!(faults.contains("docs/a.md:4: `b.md`: there is no `docs/b.md`"), "{faults}");
    assert!(faults.contains("docs/a.md:5: `c.png`: there is no `docs/c.png`"), "{faults}");
}

#[test]
fn links_are_checked_in_documents_that_are_no_pages_too() {
    let faults = faults(&[("README.md", "# R\n\n[a](docs/a.md#b)\n")]);
    assert!(
        faults.contains("README.md:3: `docs/a.md#b`: `docs/a.md` has no heading `#b`"),
        "{faults}"
    );
}

#[test]
fn a_link_to_a_heading_that_is_not_there_is_found() {
    let text = "# A\n\n[here](#a), [x](list/x.md#it), [c](../src/x.rs#l1)\n";
    let faults = faults(&[("docs/a.md", text)]);
    assert!(!faults.contains("`#a`"), "{faults}");
    assert!(faults.contains("`list/x.md#it`: `docs/list/x.md` has no heading `#it`"), "{faults}");
    assert!(faults.contains("`../src/x.rs#l1`: only pages have headings"), "{faults}");
}

#[test]
fn a_link_by_reference_cannot_be_led_elsewhere() {
    let faults = faults(&[("docs/a.md", "# A\n\n[here][b]\n\n[b]: list.md\n")]);
    assert!(faults.contains("docs/a.md:3: write the link to `list.md` inline"), "{faults}");
}

#[test]
fn links_in_code_and_to_other_sites_are_left_alone() {
    let text = "# A\n\n`[x](y)` [z](https://example.org/z#z) <mailto:a@example.org>\n\n```text\n[x](y)\n```\n";
    let placed = book(&[("docs/a.md", text)]).unwrap().placed();
    assert_eq!(placed["a.md"], text);
}

#[test]
fn a_page_that_the_contents_lack_is_found() {
    let faults = faults(&[("docs/b.md", "# B\n")]);
    assert!(faults.contains("docs/b.md: is not in docs/SUMMARY.md; give it a line"), "{faults}");
}

#[test]
fn contents_without_a_page_or_with_one_twice_are_found() {
    let contents = format!("{CONTENTS}\n[B](b.md)\n\n[A](a.md)\n\n[C](https://example.org)\n");
    let faults = faults(&[(SUMMARY, &contents)]);
    assert!(faults.contains("there is no page `docs/b.md`"), "{faults}");
    assert!(faults.contains("`docs/a.md` is listed twice"), "{faults}");
    assert!(faults.contains("`https://example.org` is no page of the project"), "{faults}");
}

#[test]
fn a_document_that_pages_link_to_belongs_into_the_contents() {
    let faults = faults(&[("docs/a.md", "# A\n\n[r](../README.md)\n"), ("README.md", "# R\n")]);
    assert!(faults.contains("README.md: pages link to it, so it needs a line"), "{faults}");
}

#[test]
fn two_pages_never_go_to_one_place() {
    let contents = format!("{CONTENTS}\n[L](log.md)\n");
    let faults = faults(&[(SUMMARY, &contents), ("docs/log.md", "# L\n")]);
    assert!(faults.contains("would be `log.md` in the book"), "{faults}");
}

#[test]
fn ways_lead_where_they_should() {
    for (from, to, way) in [
        ("a.md", "b.md", "b.md"),
        ("x/a.md", "b.md", "../b.md"),
        ("x/a.md", "x/b.md", "b.md"),
        ("x/y/a.md", "x/z/b.md", "../z/b.md"),
        ("a.md", "x/b.md", "x/b.md"),
    ] {
        assert_eq!(links::relative(from, to), way);
        assert_eq!(links::resolve(from, way).unwrap().path, to);
    }
    assert_eq!(links::resolve("a.md", "../b.md").unwrap().path, "../b.md");
}

#[test]
fn equal_headings_are_numbered() {
    let anchors = links::anchors("# A b\n\n## A B\n\n## a-b: `c_d`, (e)\n");
    assert_eq!(anchors.into_iter().collect::<Vec<_>>(), ["a-b", "a-b-1", "a-b-c_d-e"]);
}

#[test]
fn collections_list_their_documents() {
    let documents = Documents::from([
        ("papers/x/README.md".into(), "# The `x` paper\n".into()),
        ("papers/x/notes.md".into(), "# Notes\n".into()),
    ]);
    let ((path, text), below) = COLLECTIONS[0].index(&documents);
    assert_eq!(path, "docs/papers.md");
    assert!(text.contains("[The x paper](../papers/x/README.md)"), "{text}");
    assert_eq!(below, ["papers/x/README.md"]);
}

#[test]
fn contents_are_expanded_at_any_depth() {
    let contents = "# Summary\n\n- [A](a.md)\n  - [B](b.md)\n";
    let documents = Documents::from([
        ("docs/S.md".into(), contents.into()),
        ("docs/c.md".into(), "# The c\n".into()),
    ]);
    let children = BTreeMap::from([("docs/b.md".into(), vec!["docs/c.md".into()])]);
    let expanded = summary::expanded("docs/S.md", &documents, &children);
    assert_eq!(expanded, format!("{contents}    - [The c](c.md)\n"));
}

#[test]
fn modules_lead_to_their_files() {
    let file = |module| modules::file(&xtask::root().unwrap(), module);
    let policy = "crates/thermocline-core/src/policy";
    assert_eq!(
        file("thermocline_core::policy::hybrid::hat").unwrap(),
        format!("{policy}/hybrid/hat.rs")
    );
    assert_eq!(
        file("thermocline_core::policy::multi::hfa").unwrap(),
        format!("{policy}/multi/hfa/mod.rs")
    );
    assert!(
        file("thermocline_core::policy::none").unwrap_err().to_string().contains("policy::none")
    );
}

#[test]
fn headers_are_read() {
    let source = "//! X: does it,\n//! well.\n//!\n//! More.\n//!\n//! * Source: A,\n//!   *B*.\n//! * State: none.\n\
                  //! * Cost: O(1) per access.\n//! * Deviations: (1) this; (2) That.\n\nuse x;\n";
    let field = |name: &str, text: &str| (name.to_owned(), text.to_owned());
    let expected = Header {
        title: "X: does it, well.".into(),
        idea: "More.".into(),
        fields: vec![
            field("Source", "A, *B*."),
            field("State", "none."),
            field("Cost", "O(1) per access."),
            field("Deviations", "(1) this; (2) That."),
        ],
    };
    assert_eq!(modules::header(source).unwrap(), expected);
    let error = modules::header("//! X.\n//!\n//! * Source: A.\n").unwrap_err().to_string();
    assert!(error.contains("not: Source"), "{error}");
    assert_eq!(modules::header("use x;\n").unwrap_err().to_string(), "it has no header");
}

#[test]
fn deviations_become_a_list_and_costs_do_not() {
    assert_eq!(modules::enumerated("(1) this; (2) That."), "1. This;\n2. That.");
    assert_eq!(modules::enumerated("much is open. (1) This."), "Much is open.\n\n1. This.");
    assert_eq!(modules::enumerated("O(1) per access."), "O(1) per access.");
    assert_eq!(modules::enumerated("none."), "None.");
}

#[test]
fn links_to_items_become_links_to_pages() {
    let text =
        "see [`lfu`](crate::policy::lfu), [`Policy`](crate::Policy), [`Setup`], [a](b.md), x[1]";
    let lead = |file: &str| file.replace("crates/thermocline-core/src", "S");
    assert_eq!(
        modules::without_item_links(text, lead),
        "see [`lfu`](S/policy/lfu.rs), `Policy`, `Setup`, [a](b.md), x[1]"
    );
}
