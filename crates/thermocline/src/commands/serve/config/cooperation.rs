//! Configuration of two hosts that cooperate: of a server with clients, and of a client.

use anyhow::{Context as _, Result, ensure};
use serde::Deserialize;
use thermocline_core::policy::multi::split::{self, COOPERATING_MAX, Cooperating, Split, Victims};
use thermocline_core::registry::PolicyEntry;
use thermocline_engine::{Leaving, Options, Uuid};
use thermocline_nbd::backing::Cooperation;
use thermocline_nbd::cached::ClientTerms;
use thermocline_nbd::protocol::cooperation::PAGE_BYTES_MAX;

use super::{Config, Mode};
use crate::bytes::Bytes;

/// The clients of a server that cooperate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ClientsSection {
    number: u8,
    ram: Bytes,
}

impl Config {
    /// Return `true` if this engine is one half of a pair.
    pub(super) fn is_half(&self) -> bool {
        self.clients.is_some() || self.backing.cooperate
    }

    /// Refuses what two hosts that cooperate cannot do.
    pub(crate) fn check_cooperation(&self) -> Result<()> {
        if !self.is_half() {
            return Ok(());
        }
        let key = if self.backing.cooperate { "backing.cooperate" } else { "[clients]" };
        ensure!(
            self.clients.is_none() || !self.backing.cooperate,
            "[clients] and `backing.cooperate`: a cache between two others does not cooperate; \
             leave one of them out"
        );
        ensure!(
            self.shadow.is_empty(),
            "`shadow`: with `{key}` a policy runs on two hosts, and a shadow would see one of them"
        );
        self.split().with_context(|| format!("`policy.name`, with `{key}`"))?;
        let writes_back = self.policy.parameters.get("writes").and_then(|value| value.as_str());
        ensure!(
            writes_back != Some("back"),
            "`policy.parameters`: with `{key}`, `writes` must be \"through\", as clients give up clean pages"
        );
        ensure!(self.shards.get() == 1, "`shards`: with `{key}` it must be 1");
        let page = self.page_size.0;
        ensure!(
            page.is_power_of_two() && page <= PAGE_BYTES_MAX.into(),
            "`page_size` is {page} bytes: with `{key}` it must be a power of two, up to 64KiB"
        );
        if let Some(clients) = &self.clients {
            ensure!(
                (1..=COOPERATING_MAX).contains(&clients.number),
                "`clients.number` is {}: it must be from 1 to {COOPERATING_MAX}",
                clients.number
            );
            self.pages("clients.ram", clients.ram)?;
            ensure!(
                self.write_mode != Mode::Around,
                "`write_mode`: with [clients] it must not be \"around\", as the policy hears of each write"
            );
            return Ok(());
        }
        ensure!(self.backing.nbd.is_some(), "`backing.cooperate` is for `nbd`: leave it out");
        ensure!(
            self.flash.is_none(),
            "[flash]: with `backing.cooperate` RAM is the only tier here, and the server has the others"
        );
        ensure!(
            matches!(self.write_mode, Mode::Through | Mode::ReadOnly),
            "`write_mode`: with `backing.cooperate` it must be \"through\" or \"read-only\""
        );
        for (key, is_there) in
            [("[vhost_user]", self.vhost_user.is_some()), ("[ublk]", self.ublk.is_some())]
        {
            ensure!(
                !is_there,
                "{key}: with `backing.cooperate` clients write whole pages, and users of a disk do not; \
                 leave it out"
            );
        }
        ensure!(
            self.sequential_bypass_bytes().is_none(),
            "`limits.sequential_bypass`: with `backing.cooperate` the policy hears of each access"
        );
        Ok(())
    }

    /// Refuses a backing store of more pages than both hosts can number alike.
    pub(crate) fn check_numbers(&self, pages: u64) -> Result<()> {
        ensure!(
            !self.is_half() || u32::try_from(pages).is_ok(),
            "`backing`: it has {pages} pages, and hosts that cooperate can number {}; use a larger \
             `page_size`",
            u32::MAX
        );
        Ok(())
    }

    fn split(&self) -> Result<&'static Split> {
        let name = &self.policy.name;
        let names = || split::POLICIES.iter().map(|split| format!("`{}`", split.name));
        split::find(name).with_context(|| {
            let names = names().collect::<Vec<_>>().join(", ");
            format!("`{name}` does not run on two hosts; those that do are {names}")
        })
    }

    /// Return the half of the policy that decides on this host, if the policy is split.
    pub(crate) fn half(&self) -> Result<Option<PolicyEntry>> {
        if let Some(clients) = &self.clients {
            let pages = self.pages("clients.ram", clients.ram)?;
            let cooperating = Cooperating { clients: clients.number, pages };
            return Ok(Some(self.split()?.server_policy(cooperating)));
        }
        self.backing.cooperate.then(|| Ok(self.split()?.client_policy())).transpose()
    }

    /// Return which pages that leave RAM the server hears of.
    pub(crate) fn leaving(&self) -> Result<Leaving> {
        if !self.backing.cooperate {
            return Ok(Leaving::Silent);
        }
        Ok(match self.split()?.victims {
            Victims::Demoted => Leaving::Offered,
            Victims::Dropped => Leaving::Told,
        })
    }

    /// Return the introduction of this cache to a server that cooperates.
    pub(crate) fn introduction(&self) -> Result<Option<Cooperation>> {
        if !self.backing.cooperate {
            return Ok(None);
        }
        let (identity, ..) = Uuid::new_v4().as_fields();
        let pages = self.pages("ram.size", self.ram.size)?;
        let page_bytes = u32::try_from(self.page_size.0).context("`page_size`")?;
        let takes_pushes = self.split()?.pushes;
        Ok(Some(Cooperation { identity, pages, page_bytes, takes_pushes }))
    }

    /// Return the terms for clients that cooperate.
    pub(crate) fn client_terms(&self) -> Result<Option<ClientTerms>> {
        let Some(clients) = &self.clients else { return Ok(None) };
        let pages = self.pages("clients.ram", clients.ram)?;
        Ok(Some(ClientTerms { clients: clients.number, pages, pushes: self.split()?.pushes }))
    }

    /// Refuses a new configuration that the other hosts would have to know of.
    pub(crate) fn check_cooperation_stays(&self, now: &Options) -> Result<()> {
        let was_half = now.policy.entry.identity().is_some();
        let was_client = now.leaving != Leaving::Silent;
        ensure!(
            was_half == self.is_half() && was_client == self.backing.cooperate,
            "[clients] and `backing.cooperate` change with a restart"
        );
        let values = |options: &thermocline_engine::PolicyOptions| {
            let values = options.values.iter();
            values.map(|(name, value)| (name, value.to_string())).collect::<Vec<_>>()
        };
        let new = self.policy_options()?;
        let is_same = new.entry.name == now.policy.entry.name
            && values(&new) == values(&now.policy)
            && new.write_miss == now.policy.write_miss;
        ensure!(!was_half || is_same, "[policy] changes with a restart if hosts cooperate");
        Ok(())
    }
}
