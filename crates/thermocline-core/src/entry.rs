//! A policy that can be chosen: its name, its capabilities, its parameters, and how it is built.

use alloc::borrow::Cow;
use alloc::string::String;
use alloc::sync::Arc;
use core::fmt;

use crate::capabilities::{Capabilities, Depth};
use crate::config::{Parameter, Values};
use crate::{BoxedPolicy, Setup};

/// A policy that can be chosen, from the [registry](crate::registry) or from a caller.
#[derive(Clone, Debug)]
pub struct PolicyEntry {
    /// Its name, by which users choose it.
    pub name: Cow<'static, str>,
    /// Purpose, in one line.
    pub summary: &'static str,
    /// Authors, venue and year of the publication.
    pub source: &'static str,
    /// The module that it is written in, as by `module_path!()`.
    pub module: &'static str,
    /// Capabilities and needs.
    pub capabilities: Capabilities,
    /// Its parameters, in the order in which they are listed.
    pub parameters: &'static [Parameter],
    pub(crate) build: Build,
}

/// Constructor of an empty policy, for a setup that suits its capabilities.
#[derive(Clone)]
pub(crate) enum Build {
    Function(fn(&Setup, &Values) -> BoxedPolicy),
    Own(Own),
}

/// A policy of a caller.
#[derive(Clone)]
pub(crate) struct Own {
    build: Arc<BuildFn>,
    host: Option<Arc<HostFn>>,
    identity: String,
}

type BuildFn = dyn Fn(&Setup, &Values) -> BoxedPolicy + Send + Sync;
type HostFn = dyn Fn(&mut dyn FnMut()) + Send + Sync;

impl PolicyEntry {
    /// Create a policy that the registry does not list. It has no parameters unless the caller sets
    /// [`parameters`](Self::parameters).
    ///
    /// ```
    /// use thermocline_core::registry::{self, Capabilities, Depth, PolicyEntry};
    ///
    /// let capabilities = Capabilities::untested(Depth::Ram);
    /// let lru = registry::find("lru")?;
    /// let mine = PolicyEntry::new("mine", capabilities, |setup, _| {
    ///     lru.build_default(setup).expect("the same setup suits")
    /// });
    /// assert_eq!(mine.name, "mine");
    /// # Ok::<(), thermocline_core::ConfigError>(())
    /// ```
    pub fn new(
        name: impl Into<Cow<'static, str>>,
        capabilities: Capabilities,
        build: impl Fn(&Setup, &Values) -> BoxedPolicy + Send + Sync + 'static,
    ) -> Self {
        Self {
            name: name.into(),
            summary: "a policy that is not registered",
            source: "the caller",
            module: "",
            capabilities,
            parameters: &[],
            build: Build::Own(Own { build: Arc::new(build), host: None, identity: String::new() }),
        }
    }

    /// Return the same policy, whose runs must not overlap with those of other hosted policies: a
    /// driver makes them on one thread, one after the other, each in a call of `host`. A policy
    /// needs that if an interpreter with a lock runs it.
    ///
    /// # Panics
    /// If the policy is of the registry.
    #[must_use]
    pub fn hosted(mut self, host: impl Fn(&mut dyn FnMut()) + Send + Sync + 'static) -> Self {
        self.own().host = Some(Arc::new(host));
        self
    }

    /// Return the same policy with a text that says what its results depend on besides its name,
    /// such as a hash of its source. Drivers that keep results find them by it.
    ///
    /// # Panics
    /// If the policy is of the registry.
    #[must_use]
    pub fn identified_by(mut self, identity: String) -> Self {
        self.own().identity = identity;
        self
    }

    /// Return `true` if its runs take turns on one thread; see [`hosted`](Self::hosted).
    pub fn is_hosted(&self) -> bool {
        matches!(&self.build, Build::Own(Own { host: Some(_), .. }))
    }

    /// Return what the results of a caller's policy depend on besides its name.
    pub fn identity(&self) -> Option<&str> {
        match &self.build {
            Build::Own(own) => Some(&own.identity),
            Build::Function(_) => None,
        }
    }

    /// Make a run of the policy, or build it, where its host wants it.
    ///
    /// # Panics
    /// If the host does not call what it is given.
    pub fn host<T>(&self, run: impl FnOnce() -> T) -> T {
        let Build::Own(Own { host: Some(host), .. }) = &self.build else { return run() };
        let (mut run, mut found) = (Some(run), None);
        host(&mut || found = run.take().map(|run| run()));
        found.expect("a host calls what it is given, once")
    }

    fn own(&mut self) -> &mut Own {
        match &mut self.build {
            Build::Own(own) => own,
            Build::Function(_) => panic!("the policy is of the registry"),
        }
    }

    /// Return the policy of RAM over the disk that is made of an algorithm of one tier.
    pub(crate) const fn of_ram(
        name: &'static str,
        summary: &'static str,
        source: &'static str,
        module: &'static str,
        parameters: &'static [Parameter],
        build: Build,
    ) -> Self {
        let (name, capabilities) = (Cow::Borrowed(name), Capabilities::of(Depth::Ram));
        Self { name, summary, source, module, capabilities, parameters, build }
    }
}

impl Build {
    pub(crate) fn call(&self, setup: &Setup, values: &Values) -> BoxedPolicy {
        match self {
            Self::Function(build) => build(setup, values),
            Self::Own(own) => (own.build)(setup, values),
        }
    }
}

impl fmt::Debug for Build {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Build")
    }
}
