//! Circles of imports that lead through more than one folder.
//!
//! A module imports another one if a path in it leads there, behind `use` or elsewhere; a name that was
//! imported itself counts for the module that it comes from. A module that has modules below it is a
//! folder together with those of them that have none. Parts that only tests have do not count, nor does a
//! module that passes on names of its own parts.
//!
//! Sources are read as tokens: the arguments of a macro count, its output does not. Where
//! all names of a module are imported at once, they count for that module.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::str::FromStr as _;

use anyhow::{Result, anyhow};
use proc_macro2::{Delimiter, TokenStream, TokenTree};

/// A module by the names that lead to it from the root of its crate.
type Module = Vec<String>;

/// The sources of one crate, as they refer to each other.
#[derive(Debug, Default)]
pub(super) struct Crate {
    /// The modules that have a file.
    files: BTreeSet<Module>,
    /// The modules that are written in the file of another.
    inline: BTreeSet<Module>,
    /// Modules that only tests have; those below them are theirs, too.
    for_tests: BTreeSet<Module>,
    /// Meanings of the names that a module imports.
    imports: BTreeMap<(Module, String), Module>,
    /// The paths that a file has, each with whether it passes on a name.
    paths: Vec<Reference>,
}

/// A path in a source.
#[derive(Debug)]
struct Reference {
    /// The module of the file.
    file: Module,
    /// The module in which it is written, which is that of the file or one in it.
    module: Module,
    /// Its names.
    names: Vec<String>,
    /// `true` if others may import what it leads to.
    is_passed_on: bool,
}

impl Crate {
    /// Adds a source; `file` is its path below `src`.
    pub(super) fn add(&mut self, file: &str, text: &str) -> Result<()> {
        let stem = file.strip_suffix(".rs").unwrap_or(file);
        let mut module: Module = stem.split('/').map(str::to_owned).collect();
        if matches!(module.last().map(String::as_str), Some("mod" | "lib" | "main")) {
            module.pop();
        }
        let tokens = TokenStream::from_str(text).map_err(|error| anyhow!("{file}: {error}"))?;
        self.files.insert(module.clone());
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        self.read(&module, &module, &tokens);
        Ok(())
    }

    /// Return the circles of more than one folder: of each group of modules that lead to each
    /// other, the shortest one, from a module back to it.
    pub(super) fn circles(&self) -> Vec<String> {
        let imports = self.imports_by_module();
        let mut circles: Vec<Vec<&Module>> = vec![];
        for (from, targets) in &imports {
            for target in targets {
                if self.folder(from) == self.folder(target) {
                    continue;
                }
                if let Some(mut circle) = chain(&imports, target, from) {
                    circle.insert(0, from);
                    circles.push(circle);
                }
            }
        }
        circles.sort_by_key(Vec::len);
        let mut shown: Vec<Vec<&Module>> = vec![];
        for circle in circles {
            let is_shown = shown.iter().any(|other| {
                chain(&imports, other[0], circle[0]).is_some()
                    && chain(&imports, circle[0], other[0]).is_some()
            });
            if !is_shown {
                shown.push(circle);
            }
        }
        let text = |circle: &Vec<&Module>| {
            circle.iter().map(|module| name(module)).collect::<Vec<_>>().join(" -> ")
        };
        shown.iter().map(text).collect()
    }

    /// Takes the imports and paths of a module from its tokens.
    fn read(&mut self, file: &Module, module: &Module, tokens: &[TokenTree]) {
        let mut at = 0;
        let mut is_public = false;
        while at < tokens.len() {
            let rest = &tokens[at..];
            if let Some(item) = after_test_attribute(rest) {
                if let Some((name, _)) = declared_module(item) {
                    self.for_tests.insert(below(module, &name));
                }
                at = tokens.len() - item.len() + item_tokens(item);
                continue;
            }
            at += match &rest[0] {
                TokenTree::Ident(word) if word == "pub" => {
                    let is_bounded = matches!(rest.get(1), Some(TokenTree::Group(group))
                        if group.delimiter() == Delimiter::Parenthesis);
                    is_public = true;
                    // What `pub(in path)` names is no import.
                    1 + usize::from(is_bounded)
                }
                // `use<>` says what a type captures.
                TokenTree::Ident(word)
                    if word == "use" && !rest.get(1).is_some_and(|next| is_punct(next, '<')) =>
                {
                    let end = rest.iter().position(|token| is_punct(token, ';'));
                    let end = end.unwrap_or(rest.len());
                    self.read_use(file, module, &[], &rest[1..end], is_public);
                    is_public = false;
                    end
                }
                TokenTree::Ident(_) => {
                    is_public = false;
                    match declared_module(rest) {
                        Some((name, Some(body))) => {
                            let body: Vec<TokenTree> = body.into_iter().collect();
                            let inner = below(module, &name);
                            self.read(file, &inner, &body);
                            self.inline.insert(inner);
                            3
                        }
                        Some((_, None)) => 2,
                        None => self.read_path(file, module, tokens, at),
                    }
                }
                TokenTree::Group(group) => {
                    is_public = false;
                    let inner: Vec<TokenTree> = group.stream().into_iter().collect();
                    self.read(file, module, &inner);
                    1
                }
                TokenTree::Punct(_) | TokenTree::Literal(_) => 1,
            };
        }
    }

    /// Takes a path that begins at `at`, and returns how many tokens it has.
    fn read_path(
        &mut self,
        file: &Module,
        module: &Module,
        tokens: &[TokenTree],
        at: usize,
    ) -> usize {
        let (names, length) = path(&tokens[at..]);
        let is_begun = match &tokens[..at] {
            [.., first, second] if is_punct(second, '.') => is_punct(first, '.'),
            [.., first, second] if is_punct(second, ':') => !is_punct(first, ':'),
            [.., last] => !is_punct(last, '$') && !is_punct(last, '.'),
            [] => true,
        };
        if names.len() > 1 && is_begun {
            self.refer(file, module, names, false);
        }
        length
    }

    /// Takes the paths of a tree behind `use`, all of which begin with `prefix`.
    fn read_use(
        &mut self,
        file: &Module,
        module: &Module,
        prefix: &[String],
        tokens: &[TokenTree],
        is_public: bool,
    ) {
        for tree in tokens.split(|token| is_punct(token, ',')) {
            let (own, length) = path(tree);
            let mut names = [prefix, &own].concat();
            if names.len() > 1 && own == ["self"] {
                names.pop();
            }
            let local = match &tree[length..] {
                [.., TokenTree::Group(group)] => {
                    let inner: Vec<TokenTree> = group.stream().into_iter().collect();
                    self.read_use(file, module, &names, &inner, is_public);
                    continue;
                }
                [TokenTree::Ident(word), TokenTree::Ident(local)] if word == "as" => {
                    Some(local.to_string())
                }
                // All names of a module.
                [_, ..] => None,
                [] => names.last().cloned(),
            };
            if let Some(local) = local {
                self.imports.insert((module.clone(), local), names.clone());
            }
            self.refer(file, module, names, is_public);
        }
    }

    fn refer(&mut self, file: &Module, module: &Module, names: Vec<String>, is_passed_on: bool) {
        let (file, module) = (file.clone(), module.clone());
        self.paths.push(Reference { file, module, names, is_passed_on });
    }

    /// Return the modules that each module imports.
    fn imports_by_module(&self) -> BTreeMap<&Module, BTreeSet<&Module>> {
        let mut imports: BTreeMap<&Module, BTreeSet<&Module>> = BTreeMap::new();
        for reference in &self.paths {
            let Reference { file, module, names, is_passed_on } = reference;
            let Some(target) = self.resolve(module, names, &mut BTreeSet::new()) else { continue };
            let is_own_part = *is_passed_on && target.starts_with(file);
            if target != file && !is_own_part && !self.is_for_tests(file) {
                imports.entry(file).or_default().insert(target);
            }
        }
        imports
    }

    /// Return the module that a path leads to, if it stays in the crate.
    fn resolve(
        &self,
        module: &Module,
        names: &[String],
        followed: &mut BTreeSet<(Module, String)>,
    ) -> Option<&Module> {
        let (first, rest) = names.split_first()?;
        let (mut place, mut rest) = match first.as_str() {
            "crate" => (vec![], rest),
            "self" => (module.clone(), rest),
            "super" => {
                let ups = names.iter().take_while(|name| *name == "super").count();
                (module[..module.len().checked_sub(ups)?].to_vec(), &names[ups..])
            }
            _ => (module.clone(), names),
        };
        let is_relative = rest.len() == names.len();
        while let Some(name) = rest.first() {
            let deeper = below(&place, name);
            if self.files.contains(&deeper) || self.inline.contains(&deeper) {
                place = deeper;
                rest = &rest[1..];
                continue;
            }
            let import = (place.clone(), name.clone());
            if let Some(target) = self.imports.get(&import)
                && followed.insert(import)
            {
                let names: Vec<String> = target.iter().chain(&rest[1..]).cloned().collect();
                if let Some(target) = self.resolve(&place, &names, followed) {
                    return Some(target);
                }
            }
            break;
        }
        if is_relative && rest.len() == names.len() {
            return None;
        }
        (0..=place.len()).rev().find_map(|depth| self.files.get(&place[..depth]))
    }

    fn is_for_tests(&self, module: &Module) -> bool {
        (1..=module.len()).any(|depth| self.for_tests.contains(&module[..depth]))
    }

    /// Return the folder that a module lies in, or is.
    fn folder<'a>(&self, module: &'a Module) -> &'a [String] {
        let is_below = |other: &&Module| {
            other.len() > module.len() && other.starts_with(module) && !self.is_for_tests(other)
        };
        match self.files.iter().find(is_below) {
            Some(_) => module,
            None => &module[..module.len().saturating_sub(1)],
        }
    }
}

/// Return the shortest chain of imports from one module to another.
fn chain<'a>(
    imports: &BTreeMap<&'a Module, BTreeSet<&'a Module>>,
    from: &'a Module,
    to: &Module,
) -> Option<Vec<&'a Module>> {
    let mut before: BTreeMap<&Module, &'a Module> = BTreeMap::new();
    let mut waiting = VecDeque::from([from]);
    while let Some(module) = waiting.pop_front() {
        if module == to {
            let mut chain: Vec<_> =
                std::iter::successors(Some(module), |module| before.get(*module).copied())
                    .collect();
            chain.reverse();
            return Some(chain);
        }
        for &next in imports.get(module).into_iter().flatten() {
            if next != from && !before.contains_key(next) {
                before.insert(next, module);
                waiting.push_back(next);
            }
        }
    }
    None
}

/// Return the tokens behind `#[cfg(test)]`, if they begin with it.
fn after_test_attribute(tokens: &[TokenTree]) -> Option<&[TokenTree]> {
    match tokens {
        [hash, TokenTree::Group(group), rest @ ..]
            if is_punct(hash, '#')
                && group.stream().to_string().replace(' ', "") == "cfg(test)" =>
        {
            Some(rest)
        }
        _ => None,
    }
}

/// Return the number of tokens an item has: up to its block or semicolon.
fn item_tokens(tokens: &[TokenTree]) -> usize {
    let is_end = |token: &TokenTree| {
        is_punct(token, ';')
            || matches!(token, TokenTree::Group(group) if group.delimiter() == Delimiter::Brace)
    };
    tokens.iter().position(is_end).map_or(tokens.len(), |end| end + 1)
}

/// Return the name of the module that these tokens declare, behind its attributes and visibility,
/// and its body if it is here.
fn declared_module(tokens: &[TokenTree]) -> Option<(String, Option<TokenStream>)> {
    match tokens {
        [hash, TokenTree::Group(_), rest @ ..] if is_punct(hash, '#') => declared_module(rest),
        [TokenTree::Ident(word), TokenTree::Group(_), rest @ ..] if word == "pub" => {
            declared_module(rest)
        }
        [TokenTree::Ident(word), rest @ ..] if word == "pub" => declared_module(rest),
        [TokenTree::Ident(word), TokenTree::Ident(name), body, ..] if word == "mod" => {
            let body = match body {
                TokenTree::Group(group) => Some(group.stream()),
                TokenTree::Ident(_) | TokenTree::Punct(_) | TokenTree::Literal(_) => None,
            };
            Some((name.to_string(), body))
        }
        _ => None,
    }
}

/// Return the names of a path that tokens begin with, and how many tokens they are.
fn path(tokens: &[TokenTree]) -> (Vec<String>, usize) {
    let mut names = vec![];
    let mut at = 0;
    while let Some(TokenTree::Ident(name)) = tokens.get(at) {
        names.push(name.to_string());
        at += 1;
        match &tokens[at..] {
            [first, second, TokenTree::Ident(_), ..]
                if is_punct(first, ':') && is_punct(second, ':') =>
            {
                at += 2;
            }
            _ => break,
        }
    }
    (names, at)
}

fn is_punct(token: &TokenTree, sign: char) -> bool {
    matches!(token, TokenTree::Punct(punct) if punct.as_char() == sign)
}

fn below(module: &[String], name: &str) -> Module {
    [module, &[name.to_owned()]].concat()
}

fn name(module: &Module) -> String {
    if module.is_empty() { "the root".into() } else { module.join("::") }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Return the circles of a crate with these files.
    fn circles(files: &[(&str, &str)]) -> Vec<String> {
        let mut sources = Crate::default();
        for (file, text) in files {
            sources.add(file, text).unwrap();
        }
        sources.circles()
    }

    /// Return the circles of a crate with the modules `low`, `low::part` and `high`, the last of
    /// which knows the second, where this is written in the second.
    fn circles_with(text: &str) -> Vec<String> {
        circles(&[
            ("lib.rs", "mod low; mod high; pub use high::High; pub use low::Part;"),
            ("low/mod.rs", "mod part; pub(crate) use part::Part; use crate::high as above;"),
            ("low/part.rs", text),
            ("high.rs", "use crate::low::Part; pub struct High(Part);"),
        ])
    }

    #[test]
    fn a_circle_of_two_folders_is_found() {
        for text in [
            "use crate::high::High;",
            "use crate::High;",
            "use crate::{High as Higher, other};",
            "use crate::{other, high::{self, High}};",
            "use crate::high::*;",
            "use super::above; fn f() { above::g() }",
            "fn f() -> super::super::high::High { g() }",
            "fn f() { g(..crate::high::END, x.y::<u8>()) }",
            "fn f() { assert!(crate::high::is_high()) }",
            "mod inner { use super::super::above::High; }",
            "impl<T: crate::high::Trait> S<T> {}",
            "fn f() -> impl Sized + use<> { crate::high::g() }",
        ] {
            assert_eq!(circles_with(text), ["high -> low::part -> high"], "{text}");
        }
    }

    #[test]
    fn what_imports_nothing_makes_no_circle() {
        for text in [
            "// use crate::high::High;",
            "/// Like [`High`](crate::high::High).\nconst TEXT: &str = \"crate::high::High\";",
            "pub(in crate::high) struct S;",
            "use high::High; use ::high::Other; fn f() { T::high::g() }",
            "macro_rules! m { ($high:ident) => { $high::FORMAT } }",
        ] {
            assert_eq!(circles_with(text), [""; 0], "{text}");
        }
    }

    #[test]
    fn a_circle_inside_a_folder_is_none() {
        let files = [
            ("lib.rs", "mod a;"),
            ("a.rs", "mod b; mod c; use b::B; pub struct A;"),
            ("a/b.rs", "use super::{A, c::C}; pub struct B;"),
            ("a/c.rs", "use crate::a::b::B; pub struct C;"),
        ];
        assert_eq!(circles(&files), [""; 0]);
        // A module of its own makes `b` a folder, and `a` knows it.
        let more = [&files[..], &[("a/b/d.rs", "")]].concat();
        assert_eq!(circles(&more), ["a -> a::b -> a"]);
    }

    #[test]
    fn a_group_of_circles_is_shown_once_by_its_shortest() {
        let files = [
            ("a/mod.rs", "use crate::b::B;"),
            ("a/x.rs", ""),
            ("b/mod.rs", "use crate::c::C;"),
            ("b/x.rs", ""),
            ("c/mod.rs", "use crate::a::A; use crate::b::B;"),
            ("c/x.rs", "use crate::d::D;"),
            ("d/mod.rs", "use crate::c::x::X;"),
            ("d/x.rs", ""),
        ];
        assert_eq!(circles(&files), ["b -> c -> b", "c::x -> d -> c::x"]);
    }

    #[test]
    fn tests_do_not_count() {
        for text in [
            "#[cfg(test)] mod tests { use crate::high::High; }",
            "#[cfg(test)] pub(crate) mod tests { mod inner { use crate::high::High; } }",
            "#[cfg(test)] #[allow(unused)] use crate::high::High;",
            "#[cfg(test)] fn f() { crate::high::g() } struct S;",
        ] {
            assert_eq!(circles_with(text), [""; 0], "{text}");
        }
        assert_eq!(circles_with("#[cfg(unix)] mod a { use crate::high::High; }").len(), 1);
        let files = [
            ("low/mod.rs", "#[cfg(test)] mod tests; use crate::high::High;"),
            ("low/tests.rs", "use crate::high::tests::Low;"),
            ("high.rs", "#[cfg(test)] mod tests;"),
            ("high/tests.rs", "use crate::low::Low;"),
        ];
        assert_eq!(circles(&files), [""; 0]);
    }
}
