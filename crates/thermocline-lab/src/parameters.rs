//! The parameters of a run, and to whom each belongs.

use thermocline_core::config::{Parameter, Values};
use thermocline_core::names::alike;
use thermocline_core::{hotness, registry};

use crate::LabError;
use crate::spec::ParameterSpec;
use crate::spec::Step::{At, Key};

/// A policy or an identifier that takes part in a run.
#[derive(Clone, Copy, Debug)]
pub struct Owner<'a> {
    name: &'a str,
    parameters: &'static [Parameter],
}

/// The parameters of a run: each is known to belong to a policy or identifier that takes part, and to
/// have a value that it takes.
#[derive(Clone, Debug)]
pub struct Parameters<'a>(&'a [ParameterSpec]);

impl Owner<'_> {
    fn find(&self, name: &str) -> Option<&'static Parameter> {
        self.parameters.iter().find(|known| known.name == name)
    }

    /// Return `true` if a parameter is for it.
    fn takes(&self, given: &ParameterSpec) -> bool {
        match &given.owner {
            Some(owner) => owner == self.name,
            None => self.find(&given.name).is_some(),
        }
    }
}

impl<'a> From<&'a registry::PolicyEntry> for Owner<'a> {
    fn from(entry: &'a registry::PolicyEntry) -> Self {
        Self { name: &entry.name, parameters: entry.parameters }
    }
}

impl<'a> From<&'a hotness::registry::IdentifierEntry> for Owner<'a> {
    fn from(entry: &'a hotness::registry::IdentifierEntry) -> Self {
        Self { name: entry.name, parameters: entry.parameters }
    }
}

impl<'a> Parameters<'a> {
    /// Check that each parameter belongs to one of the owners, and that its value is in range.
    ///
    /// # Errors
    /// [`LabError::Spec`] with the place of the first parameter that does not, or is not.
    pub fn new(given: &'a [ParameterSpec], owners: &[Owner<'_>]) -> Result<Self, LabError> {
        for (place, one) in given.iter().enumerate() {
            check(one, owners)
                .map_err(|reason| LabError::at(&[Key("parameters"), At(place)], reason))?;
        }
        Ok(Self(given))
    }

    /// Return the values of all parameters of one owner: those given, and the defaults of the
    /// others.
    ///
    /// # Errors
    /// Never for an owner that the parameters were checked for.
    pub fn values(&self, owner: Owner<'_>) -> Result<Values, LabError> {
        let mut values = Values::defaults(owner.parameters);
        for one in self.0.iter().filter(|one| owner.takes(one)) {
            values.set(owner.name, &one.name, &one.value)?;
        }
        Ok(values)
    }

    /// Return the parameters that are for any of some owners.
    pub fn of(&self, owners: &[Owner<'_>]) -> Vec<ParameterSpec> {
        let is_theirs = |one: &&ParameterSpec| owners.iter().any(|owner| owner.takes(one));
        self.0.iter().filter(is_theirs).cloned().collect()
    }
}

/// Check that a parameter is for one of the owners, with a value that all of these take.
pub(crate) fn check(given: &ParameterSpec, owners: &[Owner<'_>]) -> Result<(), String> {
    let takers: Vec<&Owner<'_>> = owners.iter().filter(|owner| owner.takes(given)).collect();
    if takers.is_empty() {
        if let Some(owner) = &given.owner {
            return Err(format!("`{owner}` does not take part in this run"));
        }
        let parameters =
            owners.iter().flat_map(|owner| owner.parameters.iter().map(move |it| (owner, it)));
        let names: Vec<&str> = parameters.clone().map(|(_, parameter)| parameter.name).collect();
        let known: Vec<String> = parameters
            .map(|(owner, parameter)| format!("{}.{}", owner.name, parameter.name))
            .collect();
        let known = match alike(&given.name, &names) {
            _ if known.is_empty() => return Err("nothing in this run has parameters".into()),
            Some(like) => format!("did you mean `{like}`?"),
            None => format!("there are: {}", known.join(", ")),
        };
        return Err(format!("nothing in this run has it; {known}"));
    }
    for owner in takers {
        let mut values = Values::defaults(owner.parameters);
        values.set(owner.name, &given.name, &given.value).map_err(|error| error.to_string())?;
    }
    Ok(())
}
