//! Question about write buffers, as a caller asks it.

use serde::{Deserialize, Serialize};
use thermocline_core::hotness;
use thermocline_core::names::there_are;
use thermocline_core::registry::{self, BUFFERS, PolicyEntry};
use thermocline_device::ssd::{Placement, Precondition};
use thermocline_trace::CompiledTrace;

use super::Step::Key;
use super::{DriveSpec, ParameterSpec, Selection};
use crate::parameters::{Owner, Parameters};
use crate::{
    Arrivals, BufferConfiguration, BufferedSsd, LabError, ORACLE, Streams, TierSize, find_ssd,
};

/// Write buffers, their sizes, and the drive behind them.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub struct BufferSpec {
    /// The write buffers.
    pub policies: Selection,
    /// The sizes of the buffer.
    pub sizes: Vec<TierSize>,
    /// The drive behind it; the buffers run alone if absent.
    pub ssd: Option<DriveSpec>,
    /// The capacity of the drive; its own if absent.
    pub ssd_size: Option<SsdSize>,
    /// Writes to the drive before the trace; `None` if absent.
    pub precondition: Option<Precondition>,
    /// Placement handles of the drive; its own if absent.
    pub placement: Option<Placement>,
    /// Chooser of the placement handle of each write: an identifier, `oracle`, or `none`. In a
    /// drive without handles, the identifier that keeps hot and cold pages in different blocks.
    pub streams: Option<String>,
    /// Requests kept outstanding instead of arrivals at the trace's times, at least 1.
    pub closed_loop: Option<u32>,
    /// Parameters of the buffers and of the identifier.
    pub parameters: Vec<ParameterSpec>,
    /// `true` if the Ledger runs alongside.
    pub is_checked: bool,
}

/// The capacity of a drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub enum SsdSize {
    /// Smallest drive that holds the trace.
    Fit,
    /// Number of bytes.
    Bytes(u64),
}

/// A [`BufferSpec`] that was checked as far as it can be without a trace.
#[derive(Clone, Debug)]
pub struct Buffers<'a> {
    spec: &'a BufferSpec,
    policies: Vec<&'static PolicyEntry>,
    ssd: Option<BufferedSsd>,
    streams: Option<Chosen>,
    parameters: Parameters<'a>,
}

/// Chooser, by its name.
#[derive(Clone, Copy, Debug)]
enum Chosen {
    Identifier(&'static hotness::registry::IdentifierEntry),
    Oracle,
}

impl BufferSpec {
    /// Find the buffers and the drive, and check all that does not depend on a trace.
    ///
    /// # Errors
    /// If a name is unknown, an option of a drive has no drive, or a parameter is invalid.
    pub fn buffers(&self) -> Result<Buffers<'_>, LabError> {
        let policies = self.policies.resolve(|| BUFFERS.iter().collect(), find_buffer)?;
        let ssd = self.drive()?;
        let streams = self.chosen(ssd.as_ref())?;
        let mut owners: Vec<Owner<'_>> = policies.iter().map(|&policy| policy.into()).collect();
        if let Some(Chosen::Identifier(entry)) = streams {
            owners.push(entry.into());
        }
        let parameters = Parameters::new(&self.parameters, &owners)?;
        Ok(Buffers { spec: self, policies, ssd, streams, parameters })
    }

    /// Return the chooser of streams or handles.
    fn chosen(&self, ssd: Option<&BufferedSsd>) -> Result<Option<Chosen>, LabError> {
        let has_handles = ssd.is_some_and(|ssd| ssd.config.placement.is_some());
        match self.streams.as_deref() {
            None | Some("none") => Ok(None),
            Some(ORACLE) if has_handles => Ok(Some(Chosen::Oracle)),
            Some(ORACLE) => {
                // The remedy is at the other option, so that is the one to name.
                let reason = "the drive has no placement handles for the oracle to choose from: give it some, as in handles=8";
                Err(LabError::at(&[Key("placement")], reason))
            }
            Some(name) => match hotness::registry::find(name) {
                Ok(entry) => Ok(Some(Chosen::Identifier(entry))),
                Err(error) => Err(LabError::at(&[Key("streams")], error)),
            },
        }
    }

    /// Return the drive at its own size.
    fn drive(&self) -> Result<Option<BufferedSsd>, LabError> {
        let Some(drive) = &self.ssd else {
            let without = [
                ("ssd_size", self.ssd_size.is_some()),
                ("precondition", self.precondition.is_some()),
                ("placement", self.placement.is_some()),
                ("streams", self.streams.is_some()),
                ("closed_loop", self.closed_loop.is_some()),
            ];
            return match without.iter().find(|(_, is_given)| *is_given) {
                Some((key, _)) => {
                    Err(LabError::at(&[Key(key)], "it needs a drive: give one, as `ssd` ssdsim"))
                }
                None => Ok(None),
            };
        };
        if self.closed_loop == Some(0) {
            return Err(LabError::at(&[Key("closed_loop")], "expected at least 1 request"));
        }
        if let Some(precondition) = self.precondition {
            precondition.validate().map_err(|error| LabError::at(&[Key("precondition")], error))?;
        }
        let mut config = find_ssd(drive)?;
        config.placement = self.placement.or(config.placement);
        Ok(Some(BufferedSsd { precondition: self.precondition, ..BufferedSsd::new(config) }))
    }
}

impl Buffers<'_> {
    /// Return the number of bytes per page of the drive; `None` without one.
    pub fn drive_page_bytes(&self) -> Option<u64> {
        self.ssd.as_ref().map(|ssd| u64::from(ssd.config.page_bytes))
    }

    /// Return the policies by name with the parameters that are given for each, and all that the
    /// drive and its streams depend on besides the trace.
    pub(crate) fn identity(&self) -> (Vec<(String, Vec<ParameterSpec>)>, String) {
        let given = |policy: &&PolicyEntry| {
            (policy.name.to_string(), self.parameters.of(&[Owner::from(*policy)]))
        };
        let policies = self.policies.iter().map(given).collect();
        let streams = self.streams.map(|chosen| match chosen {
            Chosen::Identifier(entry) => self.parameters.of(&[entry.into()]),
            Chosen::Oracle => vec![],
        });
        let spec = self.spec;
        let rest = (spec.ssd_size, spec.precondition, &spec.streams, spec.closed_loop);
        (policies, format!("{:?} {streams:?} {rest:?}", self.ssd))
    }

    /// Return one configuration for each size and policy, policies last.
    ///
    /// # Errors
    /// If the drive cannot have the size.
    pub fn configurations(
        &self,
        trace: &CompiledTrace,
    ) -> Result<Vec<BufferConfiguration>, LabError> {
        let ssd = self.ssd.clone().map(|ssd| self.sized(ssd, trace)).transpose()?;
        let requests = self.spec.closed_loop;
        let arrivals = requests.map_or(Arrivals::Trace, |requests| Arrivals::Closed { requests });
        let mut configurations = vec![];
        for &size in &self.spec.sizes {
            for &policy in &self.policies {
                let parameters = self.parameters.of(&[policy.into()]).into_iter();
                configurations.push(BufferConfiguration {
                    policy,
                    parameters: parameters.map(|one| (one.name, one.value)).collect(),
                    size,
                    ssd: ssd.clone(),
                    arrivals,
                });
            }
        }
        Ok(configurations)
    }

    /// Return the drive with its streams and at its size.
    fn sized(&self, mut ssd: BufferedSsd, trace: &CompiledTrace) -> Result<BufferedSsd, LabError> {
        match self.streams {
            Some(Chosen::Identifier(entry)) => {
                ssd.config.streams = if ssd.config.placement.is_some() { 1 } else { 2 };
                let values = self.parameters.values(entry.into())?;
                ssd.streams = Some(Streams::Identifier(entry, values));
            }
            Some(Chosen::Oracle) => ssd.streams = Some(Streams::Oracle),
            None => {}
        }
        // Streams and handles keep more blocks open, which a drive of the size asked for must have.
        match self.spec.ssd_size {
            None => Ok(ssd),
            Some(SsdSize::Fit) => ssd.fitted(trace, 1.0),
            Some(SsdSize::Bytes(bytes)) => {
                let config = ssd.config.sized_for(bytes / u64::from(ssd.config.page_bytes))?;
                Ok(BufferedSsd { config, ..ssd })
            }
        }
    }
}

/// Return the write buffer of that name.
///
/// # Errors
/// [`LabError::UnknownBuffer`], which names those that there are.
pub fn find_buffer(name: &str) -> Result<&'static PolicyEntry, LabError> {
    registry::find_buffer(name).map_err(|_| {
        let known = there_are(name, BUFFERS.iter().map(|entry| &*entry.name));
        LabError::UnknownBuffer { name: name.into(), known }
    })
}
