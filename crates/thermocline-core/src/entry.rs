//! A policy that can be chosen: its name, its capabilities, its parameters, and how it is built.

use alloc::borrow::Cow;
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
    /// What it does, in one line.
    pub summary: &'static str,
    /// Who published it, where.
    pub source: &'static str,
    /// The module that it is written in, as by `module_path!()`.
    pub module: &'static str,
    /// What it can do, and what it needs.
    pub capabilities: Capabilities,
    /// Its parameters, in the order in which they are listed.
    pub parameters: &'static [Parameter],
    pub(crate) build: Build,
}

/// How a policy is built, empty, for a setup that suits its capabilities.
#[derive(Clone)]
pub(crate) enum Build {
    Function(fn(&Setup, &Values) -> BoxedPolicy),
    Closure(Arc<BuildFn>),
}

type BuildFn = dyn Fn(&Setup, &Values) -> BoxedPolicy + Send + Sync;

impl PolicyEntry {
    /// A policy that the registry does not list. It has no parameters unless the caller sets
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
            build: Build::Closure(Arc::new(build)),
        }
    }

    /// The policy of RAM over the disk that is made of an algorithm of one tier.
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
            Self::Closure(build) => build(setup, values),
        }
    }
}

impl fmt::Debug for Build {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Build")
    }
}
