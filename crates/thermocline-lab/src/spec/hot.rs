//! Question about hot-data identifiers, as a caller asks it.

use thermocline_core::hotness::registry::{self, IdentifierEntry};

use super::Step::Key;
use super::{ParameterSpec, Selection};
use crate::parameters::{Owner, Parameters};
use crate::{Candidate, Counted, LabError};

/// Identifiers, and the one that they are compared with.
#[derive(Clone, Debug, PartialEq)]
pub struct HotSpec {
    /// The identifiers.
    pub identifiers: Selection,
    /// The identifier that they are compared with.
    pub baseline: String,
    /// The accesses that they see.
    pub count: Counted,
    /// Accesses per interval of the figures over time, at least 1; for about fifty intervals if
    /// absent.
    pub interval: Option<u64>,
    /// Parameters of the identifiers.
    pub parameters: Vec<ParameterSpec>,
}

/// The identifiers of a [`HotSpec`], with their parameters.
#[derive(Clone, Debug)]
pub struct Candidates {
    /// The one that the others are compared with.
    pub baseline: Candidate,
    /// The others, in the order in which they were given.
    pub others: Vec<Candidate>,
}

impl HotSpec {
    /// Return the identifiers with their parameters.
    ///
    /// # Errors
    /// If an identifier is unknown, or a parameter is invalid.
    pub fn candidates(&self) -> Result<Candidates, LabError> {
        if self.interval == Some(0) {
            return Err(LabError::at(&[Key("interval")], "expected at least 1 access"));
        }
        let all = || registry::entries().iter().collect();
        let mut entries: Vec<&'static IdentifierEntry> =
            self.identifiers.resolve(all, |name| Ok(registry::find(name)?))?;
        let baseline = registry::find(&self.baseline)?;
        let mut owners: Vec<Owner<'_>> = entries.iter().map(|&entry| entry.into()).collect();
        owners.push(baseline.into());
        let parameters = Parameters::new(&self.parameters, &owners)?;
        let candidate = |entry: &'static IdentifierEntry| -> Result<Candidate, LabError> {
            let values = parameters.values(entry.into())?;
            Candidate::with_values(entry.name, entry, values)
        };
        let others = entries.drain(..).map(candidate).collect::<Result<Vec<Candidate>, _>>()?;
        Ok(Candidates { baseline: candidate(baseline)?, others })
    }
}

impl Candidates {
    /// Count them, the baseline included.
    pub fn count(&self) -> usize {
        let is_other = |other: &&Candidate| other.entry.name != self.baseline.entry.name;
        1 + self.others.iter().filter(is_other).count()
    }
}
