//! Parameters as users give them, and to whom each belongs.

use thermocline_core::config::Parameter;
use thermocline_core::{hotness, registry};

use crate::LabError;

/// A policy or an identifier that takes part in a run.
#[derive(Clone, Copy, Debug)]
pub struct Owner {
    name: &'static str,
    parameters: &'static [Parameter],
}

/// The parameters given: owner if named, name, value.
#[derive(Clone, Debug)]
pub struct Given<'a>(Vec<(Option<&'a str>, &'a str, &'a str)>);

impl Owner {
    fn takes(&self, name: &str) -> bool {
        self.parameters.iter().any(|known| known.name == name)
    }
}

impl From<&registry::Entry> for Owner {
    fn from(entry: &registry::Entry) -> Self {
        Self { name: entry.name, parameters: entry.parameters }
    }
}

impl From<&hotness::registry::Entry> for Owner {
    fn from(entry: &hotness::registry::Entry) -> Self {
        Self { name: entry.name, parameters: entry.parameters }
    }
}

impl<'a> Given<'a> {
    /// Reads `name=value` and `owner.name=value`; each must belong to one of the owners.
    ///
    /// # Errors
    /// [`LabError::BadOption`] if one is not written so, or belongs to nobody.
    pub fn parse(options: &'a [String], owners: &[Owner]) -> Result<Self, LabError> {
        let mut parameters = vec![];
        for option in options {
            let bad = |reason: String| LabError::bad_option("--param", option, reason);
            let (name, value) = split(option, "--param", "nonhot_ratio=0.1")?;
            let (owner, name) = match name.split_once('.') {
                Some((owner, name)) => (Some(owner), name),
                None => (None, name),
            };
            match owner {
                Some(owner) if owners.iter().any(|known| known.name == owner) => {}
                Some(owner) => {
                    return Err(bad(format!("`{owner}` does not take part in this run")));
                }
                None if owners.iter().any(|known| known.takes(name)) => {}
                None => {
                    let known: Vec<String> = owners
                        .iter()
                        .flat_map(|owner| owner.parameters.iter().map(|p| (owner.name, p.name)))
                        .map(|(owner, name)| format!("{owner}.{name}"))
                        .collect();
                    let known = if known.is_empty() { "none".into() } else { known.join(", ") };
                    return Err(bad(format!("nothing in this run has it; there are: {known}")));
                }
            }
            parameters.push((owner, name, value));
        }
        Ok(Self(parameters))
    }

    /// Those of one owner: the ones that name it, and the unnamed ones that it has.
    pub fn of(&self, owner: Owner) -> Vec<(String, String)> {
        self.0
            .iter()
            .filter(|(named, name, _)| match named {
                Some(named) => *named == owner.name,
                None => owner.takes(name),
            })
            .map(|(_, name, value)| ((*name).into(), (*value).into()))
            .collect()
    }
}

/// The two sides of an option's `=`.
pub(crate) fn split<'a>(
    option: &'a str,
    flag: &str,
    example: &str,
) -> Result<(&'a str, &'a str), LabError> {
    let bad = || LabError::bad_option(flag, option, format!("write it as in {flag} {example}"));
    option.split_once('=').ok_or_else(bad)
}
