//! The table of contents.

use std::collections::{BTreeMap, BTreeSet};

use super::links::{self, Documents};

/// Return the table of contents with the pages below generated ones, as mdBook takes it; links are
/// those of the project. A part begins with `##` in `docs/`, where a document has one title, and
/// with `#` here.
pub(crate) fn expanded(
    path: &str,
    documents: &Documents,
    children: &BTreeMap<String, Vec<String>>,
) -> String {
    let mut summary = String::new();
    for line in documents.get(path).map_or("", String::as_str).lines() {
        summary += line.strip_prefix('#').filter(|rest| rest.starts_with('#')).unwrap_or(line);
        summary.push('\n');
        let indent = line.len() - line.trim_start().len();
        for link in links::links(line) {
            let Some(target) = links::resolve(path, &link.destination) else { continue };
            for child in children.get(&target.path).into_iter().flatten() {
                let title = documents.get(child).and_then(|text| links::title(text));
                let title = title.unwrap_or_else(|| child.clone());
                let way = links::relative(path, child);
                summary += &format!("{:indent$}  - [{title}]({way})\n", "");
            }
        }
    }
    summary
}

/// Return the pages that a table of contents lists, and what is wrong with it.
pub(crate) fn pages(
    path: &str,
    summary: &str,
    documents: &Documents,
) -> (Vec<String>, Vec<String>) {
    let (mut pages, mut faults) = (vec![], vec![]);
    let mut seen = BTreeSet::new();
    for link in links::links(summary) {
        let Some(target) = links::resolve(path, &link.destination) else {
            faults.push(format!("{path}: `{}` is no page of the project", link.destination));
            continue;
        };
        if !documents.contains_key(&target.path) {
            faults.push(format!("{path}: there is no page `{}`", target.path));
        } else if !seen.insert(target.path.clone()) {
            faults.push(format!("{path}: `{}` is listed twice", target.path));
        } else {
            pages.push(target.path);
        }
    }
    let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
    for document in documents.keys().filter(|document| *document != path) {
        let is_inside = document.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'));
        if is_inside && !seen.contains(document) {
            faults.push(format!("{document}: is not in {path}; give it a line there"));
        }
    }
    (pages, faults)
}
