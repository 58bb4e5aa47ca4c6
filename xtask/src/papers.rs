//! The tables of claims, and others, on the pages of the studies, from what
//! `thermocline reproduce --json` printed.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use serde::{Deserialize, Serialize};

/// The folder of the papers' pages, each in a folder of its own.
const PAPERS: &str = "papers";
const PAPER: &str = "README.md";
/// The folder of other pages. Those that have a place for claims are of a study.
const DOCS: &str = "docs";
/// Name of the file beside a page that keeps the last run.
const CLAIMS: &str = "claims.json";
/// Marks around the table of a page.
const BEGIN: &str = "<!-- `cargo xtask papers` writes this table. -->\n";
const END: &str = "<!-- The end of the table. -->\n";

/// The page of a study.
struct Page {
    /// The study's name.
    study: String,
    path: PathBuf,
    /// File of the last run.
    claims: PathBuf,
}

/// Output of a run; the figures are left out.
#[derive(Deserialize, Serialize)]
struct Run {
    claims: Vec<Claim>,
    /// Parts of the page besides the claims.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    tables: Vec<Table>,
}

/// A table of a page, at the place that has its title.
#[derive(Deserialize, Serialize)]
struct Table {
    title: String,
    header: Vec<String>,
    rows: Vec<Vec<String>>,
}

#[derive(Deserialize, Serialize)]
struct Claim {
    #[serde(rename = "claim")]
    says: String,
    measured: String,
    verdict: String,
}

/// Takes the claims of every `NAME.json` in a folder over, each the output of
/// `thermocline reproduce NAME --json`, and writes the tables of their pages.
///
/// # Errors
/// If the file is none of those, or the page has no place for the table.
pub(crate) fn update(root: &Path, results: &Path) -> Result<()> {
    let mut updated = 0;
    for Page { study, path: page, claims } in pages(root)? {
        let path = results.join(study).with_extension("json");
        if !path.exists() {
            eprintln!("skipped: no `{}`", path.display());
            continue;
        }
        let run = read(&path)?;
        let text = std::fs::read_to_string(&page)?;
        let text = with_tables(&text, &run).with_context(|| page.display().to_string())?;
        std::fs::write(claims, serde_json::to_string_pretty(&run)? + "\n")?;
        std::fs::write(page, text)?;
        updated += 1;
    }
    ensure!(updated > 0, "`{}` has no results of a study", results.display());
    Ok(())
}

/// Return the pages that have claims beside them, and another table.
pub(crate) fn outdated(root: &Path) -> Result<Vec<String>> {
    let mut outdated = vec![];
    for Page { path, claims, .. } in pages(root)?.into_iter().filter(|page| page.claims.exists()) {
        let text = std::fs::read_to_string(&path)?;
        let expected = with_tables(&text, &read(&claims)?);
        if expected.ok().as_ref() != Some(&text) {
            let [page, claims] = [&path, &claims]
                .map(|path| path.strip_prefix(root).unwrap_or(path).display().to_string());
            outdated.push(format!("{page}: the tables are not those of `{claims}`"));
        }
    }
    Ok(outdated)
}

/// Return the pages of all studies, in order.
fn pages(root: &Path) -> Result<Vec<Page>> {
    let name = |path: &Path| path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
    let of_paper = |folder: PathBuf| {
        let (path, claims) = (folder.join(PAPER), folder.join(CLAIMS));
        Some(Page { study: name(&folder)?, path, claims }).filter(|page| page.path.exists())
    };
    let mut pages: Vec<Page> = list(&root.join(PAPERS))?.into_iter().filter_map(of_paper).collect();
    for path in list(&root.join(DOCS))? {
        let is_of_study = path.extension().is_some_and(|extension| extension == "md")
            && std::fs::read_to_string(&path)?.contains(BEGIN);
        if let Some(study) = name(&path).filter(|_| is_of_study) {
            let claims = path.with_extension(CLAIMS);
            pages.push(Page { study, path, claims });
        }
    }
    Ok(pages)
}

/// Return the paths in a folder, in order.
fn list(folder: &Path) -> Result<Vec<PathBuf>> {
    let cannot_list = || format!("cannot list `{}`", folder.display());
    let entries = std::fs::read_dir(folder).with_context(cannot_list)?;
    let mut paths: Vec<PathBuf> =
        entries.map(|entry| Ok(entry?.path())).collect::<std::io::Result<_>>()?;
    paths.sort();
    Ok(paths)
}

fn read(path: &Path) -> Result<Run> {
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("cannot read `{}`", path.display()))?;
    serde_json::from_str(&text).with_context(|| {
        format!("`{}` is no output of `thermocline reproduce --json`", path.display())
    })
}

/// Return the table of claims.
fn claims(run: &Run) -> String {
    let header = ["claim", "we measure", "verdict"].map(String::from);
    let row = |Claim { says, measured, verdict }: &Claim| {
        vec![says.clone(), measured.clone(), verdict.replace('_', " ")]
    };
    markdown(&header, &run.claims.iter().map(row).collect::<Vec<_>>())
}

fn markdown(header: &[String], rows: &[Vec<String>]) -> String {
    let line = |cells: &[String]| {
        let cells: Vec<String> = cells.iter().map(|text| text.replace('|', "\\|")).collect();
        format!("| {} |\n", cells.join(" | "))
    };
    let rule = format!("|{}\n", " --- |".repeat(header.len()));
    [line(header), rule].into_iter().chain(rows.iter().map(|row| line(row))).collect()
}

/// Return the mark before the table of this title.
fn begin(title: &str) -> String {
    format!("<!-- `cargo xtask papers` writes the table \"{title}\". -->\n")
}

/// Return a page with the tables of a run in the place of those that it has.
fn with_tables(page: &str, run: &Run) -> Result<String> {
    let mut page = with_table(page, BEGIN, &claims(run)).context("no place for the claims")?;
    for Table { title, header, rows } in &run.tables {
        page = with_table(&page, &begin(title), &markdown(header, rows))
            .with_context(|| format!("no place for the table \"{title}\""))?;
    }
    Ok(page)
}

/// Return a page with another table at the place that begins so; `None` if it has no such place.
fn with_table(page: &str, begin: &str, table: &str) -> Option<String> {
    let (before, rest) = page.split_once(begin)?;
    let (_, after) = rest.split_once(END)?;
    Some([before, begin, "\n", table, "\n", END, after].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_keeps_all_but_its_table() {
        let run: Run = serde_json::from_str(
            r#"{
                "claims": [{"claim": "a|b", "measured": "1 %", "verdict": "cannot_be_judged"}],
                "tables": [{"title": "T", "header": ["c", "d"], "rows": [["e", "f"]]}],
                "workloads": []
            }"#,
        )
        .unwrap();
        let of_title = begin("T");
        let page = format!("# A\n\n{BEGIN}\nold\n{END}\n{of_title}old\n{END}b\n");
        let new = with_tables(&page, &run).unwrap();
        assert!(new.contains("| c | d |\n| --- | --- |\n| e | f |\n"), "{new}");
        assert!(new.contains("| a\\|b | 1 % | cannot be judged |\n"), "{new}");
        assert!(new.starts_with("# A\n\n") && new.ends_with("\nb\n") && !new.contains("old"));
        assert_eq!(with_tables(&new, &run).unwrap(), new, "nothing changes twice");
        let without = page.replace(&of_title, "");
        let error = with_tables(&without, &run).map_err(|error| error.to_string());
        assert_eq!(error, Err("no place for the table \"T\"".into()));
        assert!(with_tables("# A\n", &run).is_err());
    }

    #[test]
    fn a_page_of_the_documentation_with_a_place_for_claims_is_of_a_study() {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        let page = format!("# A\n\n{BEGIN}{END}");
        write("papers/a/README.md", &page);
        write("docs/b.md", &page);
        write("docs/c.md", "# Another\n");
        let run = r#"{"claims": [{"claim": "a", "measured": "b", "verdict": "holds"}]}"#;
        write("results/a.json", run);
        write("results/b.json", run);
        write("results/c.json", run);
        update(root.path(), &root.path().join("results")).unwrap();
        assert!(root.path().join("papers/a/claims.json").exists());
        assert!(root.path().join("docs/b.claims.json").exists());
        assert!(!root.path().join("docs/c.claims.json").exists());
        assert!(outdated(root.path()).unwrap().is_empty());
        write("docs/b.md", &page);
        assert_eq!(
            outdated(root.path()).unwrap(),
            ["docs/b.md: the tables are not those of `docs/b.claims.json`"]
        );
    }
}
