//! Question about write buffers, as a caller asks it.

use serde::{Deserialize, Serialize};
use thermocline_core::names::there_are;
use thermocline_core::registry::{self, BUFFERS, PolicyEntry};
use thermocline_device::ssd::{Placement, Precondition};
use thermocline_trace::CompiledTrace;

use super::Step::Key;
use super::{DriveSpec, ParameterSpec, Selection};
use crate::parameters::{Owner, Parameters};
use crate::placing::Chosen;
use crate::{Arrivals, BufferConfiguration, BufferedSsd, LabError, Streams, TierSize, find_ssd};

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
    /// Chooser of the placement handle of each write: an identifier, `volume`, `class`, `oracle`, or `none`. In a
    /// drive without handles, the identifier that keeps hot and cold pages in different blocks.
    pub streams: Option<String>,
    /// Write requests to the drive after which the host flushes it, at least 1; never if absent.
    pub flush_every: Option<u32>,
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
        owners.extend(streams.as_ref().and_then(Chosen::identifier).map(Owner::from));
        let parameters = Parameters::new(&self.parameters, &owners)?;
        Ok(Buffers { spec: self, policies, ssd, streams, parameters })
    }

    /// Return the chooser of streams or handles.
    fn chosen(&self, ssd: Option<&BufferedSsd>) -> Result<Option<Chosen>, LabError> {
        let Some(name) = &self.streams else { return Ok(None) };
        let bad = |reason: String| LabError::at(&[Key("streams")], reason);
        let chosen = Chosen::find(name).map_err(bad)?;
        let has_handles = ssd.is_some_and(|ssd| ssd.config.placement.is_some());
        match &chosen {
            None | Some(Chosen::Identifier(_)) => Ok(chosen),
            Some(Chosen::Other(Streams::Tier | Streams::Client)) => Err(bad(format!(
                "`{name}` is for hierarchies: behind a buffer, all writes are of one client and one tier"
            ))),
            Some(Chosen::Other(_)) if has_handles => Ok(chosen),
            Some(Chosen::Other(_)) => {
                // The remedy is at the other option, so that is the one to name.
                let reason = format!(
                    "the drive has no placement handles for `{name}` to choose from; set it, for example to `handles=8`"
                );
                Err(LabError::at(&[Key("placement")], reason))
            }
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
                ("flush_every", self.flush_every.is_some()),
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
        if self.flush_every == Some(0) {
            return Err(LabError::at(&[Key("flush_every")], "expected at least 1 write request"));
        }
        if let Some(precondition) = self.precondition {
            precondition.validate().map_err(|error| LabError::at(&[Key("precondition")], error))?;
        }
        let mut config = find_ssd(drive)?;
        config.placement = self.placement.or(config.placement);
        let Self { precondition, flush_every, .. } = *self;
        Ok(Some(BufferedSsd { precondition, flush_every, ..BufferedSsd::new(config) }))
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
        let identifier = self.streams.as_ref().and_then(Chosen::identifier);
        let streams = self.streams.as_ref().map(|_| {
            let owner = identifier.map(Owner::from);
            owner.map_or_else(Vec::new, |owner| self.parameters.of(&[owner]))
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
        if let Some(chosen) = &self.streams {
            let has_handles = ssd.config.placement.is_some();
            ssd.config.streams = if has_handles { 1 } else { 2 };
            ssd.streams = Some(chosen.streams(&self.parameters)?);
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
