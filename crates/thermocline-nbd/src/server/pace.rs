//! Rates that a client may not exceed: requests beyond them wait, in order, and only those of that client.
//!
//! A client pays for each request with time: a request of a rate of 1000 per second costs a millisecond, and
//! so does a kilobyte of a rate of 1 MB per second. The client may be in debt for [`BURST`]; while its debt is
//! greater, the server takes no request from it. A pause pays debts, and saves nothing up.
//!
//! * Source: the virtual scheduling form of the generic cell rate algorithm, ITU-T Recommendation I.371
//!   (2004), annex A.
//! * State: 64 bytes per client, and an entry of a set for each client that waits.
//! * Cost: O(1) per request, and O(log clients) per wait.
//! * Deviations: (1) a request is taken if those before it are paid for, however much it costs itself, so that
//!   one that costs more than the burst is served at all; (2) each of two rates must permit it.

use std::collections::BTreeSet;
use std::num::NonZeroU64;
use std::time::{Duration, Instant};

/// Debt up to which requests are taken. Without it, a client that sends several at once, as all do that have a
/// queue, would wait between each two of them.
const BURST: Duration = Duration::from_millis(100);

const NS_PER_SECOND: u128 = 1_000_000_000;

/// Rates that each client may reach, each for itself; without one, as much as the server can.
///
/// A client is a connection. Clients that [cooperate](crate::protocol::cooperation) are not limited, because
/// others wait for what they say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClientRates {
    /// Requests per second, whatever they are.
    pub requests_per_second: Option<NonZeroU64>,
    /// Bytes per second of reads, writes and ranges to be cached. Trims and zeroes move none.
    pub bytes_per_second: Option<NonZeroU64>,
}

/// Debts of one client, by rate.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pacer {
    requests: Debt,
    bytes: Debt,
}

#[derive(Clone, Copy, Debug, Default)]
struct Debt {
    /// Time at which everything is paid that was taken; `None` if nothing was.
    paid_at: Option<Instant>,
    /// Part of a nanosecond that is owed besides, in fractions of which the rate makes one.
    rest: u64,
}

impl ClientRates {
    /// Return `true` if there is a limit.
    pub(super) const fn are_limited(&self) -> bool {
        self.requests_per_second.is_some() || self.bytes_per_second.is_some()
    }
}

impl Pacer {
    /// Return the time until which the client's next request has to wait, if it has to.
    pub(super) fn waits_until(&self, now: Instant) -> Option<Instant> {
        // Deviation (2): the later one of two rates decides. Deviation (1): the cost of the request
        // itself does not matter here.
        let paid_at = self.requests.paid_at.max(self.bytes.paid_at)?;
        // I.371, annex A: a request conforms from the theoretical arrival time less the tolerance on.
        paid_at.checked_sub(BURST).filter(|until| *until > now)
    }

    /// Charge the client for a request that was taken, and for the bytes that it moves.
    pub(super) fn charge(&mut self, rates: &ClientRates, now: Instant, bytes: u64) {
        if let Some(rate) = rates.requests_per_second {
            self.requests.charge(rate, now, 1);
        }
        if let Some(rate) = rates.bytes_per_second {
            self.bytes.charge(rate, now, bytes);
        }
    }
}

impl Debt {
    fn charge(&mut self, rate: NonZeroU64, now: Instant, units: u64) {
        let owed = u128::from(units) * NS_PER_SECOND + u128::from(self.rest);
        let rate = u128::from(rate.get());
        let ns = u64::try_from(owed / rate).unwrap_or(u64::MAX);
        // It is smaller than the rate.
        self.rest = u64::try_from(owed % rate).unwrap_or(0);
        // I.371, annex A: the theoretical arrival time never lies in the past, so a pause saves nothing
        // up.
        let start = self.paid_at.map_or(now, |paid_at| paid_at.max(now));
        self.paid_at = Some(start + Duration::from_nanos(ns));
    }
}

/// The clients that wait until they may go on.
#[derive(Debug, Default)]
pub(super) struct Paced(BTreeSet<(Instant, usize)>);

impl Paced {
    /// Let a client wait until that time from now on, or no longer. `entered` is what it waited for before.
    pub(super) fn enter(
        &mut self,
        client: usize,
        entered: &mut Option<Instant>,
        until: Option<Instant>,
    ) {
        if *entered == until {
            return;
        }
        if let Some(former) = *entered {
            self.0.remove(&(former, client));
        }
        if let Some(until) = until {
            self.0.insert((until, client));
        }
        *entered = until;
    }

    /// Return the time at which the first client goes on.
    pub(super) fn next_time(&self) -> Option<Instant> {
        self.0.first().map(|(until, _)| *until)
    }

    /// Return the clients whose time has come.
    pub(super) fn due(&self, now: Instant) -> impl Iterator<Item = usize> {
        self.0.iter().take_while(move |(until, _)| *until <= now).map(|(_, client)| *client)
    }

    /// Return `true` if nobody waits.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn rates(requests: u64, bytes: u64) -> ClientRates {
        ClientRates {
            requests_per_second: NonZeroU64::new(requests),
            bytes_per_second: NonZeroU64::new(bytes),
        }
    }

    /// Take requests of these bytes as early as the rates permit; return when each was taken.
    fn take(rates: &ClientRates, sizes: impl IntoIterator<Item = u64>) -> Vec<Duration> {
        let start = Instant::now();
        let (mut pacer, mut now) = (Pacer::default(), start);
        let mut times = vec![];
        for bytes in sizes {
            if let Some(until) = pacer.waits_until(now) {
                assert!(until > now, "it waits for something");
                now = until;
                assert_eq!(pacer.waits_until(now), None, "it has waited for long enough");
            }
            pacer.charge(rates, now, bytes);
            times.push(now - start);
        }
        times
    }

    #[test]
    fn requests_come_at_the_rate_after_a_burst() {
        let times = take(&rates(1000, 0), [4096; 1000]);
        // A hundred are the burst, and one more begins before it is over.
        assert!(times[..=100].iter().all(Duration::is_zero), "{times:?}");
        for (number, time) in times.iter().enumerate().skip(101) {
            let number = u64::try_from(number).unwrap();
            assert_eq!(*time, Duration::from_millis(number - 100));
        }
    }

    #[test]
    fn bytes_come_at_the_rate_and_no_request_is_too_large() {
        let times = take(&rates(0, 1 << 20), [32 << 20, 512 << 10, 512 << 10, 0, 0]);
        let ms = times.iter().map(Duration::as_millis).collect::<Vec<_>>();
        assert_eq!(ms, [0, 31_900, 32_400, 32_900, 32_900]);
    }

    #[test]
    fn the_lower_of_two_rates_counts() {
        let last = |rates: ClientRates| *take(&rates, [1000; 501]).last().unwrap();
        assert_eq!(last(rates(100, 1 << 30)), Duration::from_millis(4900));
        assert_eq!(last(rates(1 << 30, 100_000)), Duration::from_millis(4900));
        assert_eq!(last(rates(0, 0)), Duration::ZERO);
    }

    #[test]
    fn a_rate_that_divides_no_nanosecond_is_kept() {
        // A third of a nanosecond is lost or gained nowhere.
        let last = *take(&rates(3000, 0), [0; 901]).last().unwrap();
        assert_eq!(last, Duration::from_millis(200));
    }

    #[test]
    fn a_pause_saves_nothing_up() {
        let (rates, mut pacer, start) = (rates(1000, 0), Pacer::default(), Instant::now());
        pacer.charge(&rates, start, 0);
        let later = start + Duration::from_hours(1);
        let taken = (0..1000).take_while(|_| {
            let may_go_on = pacer.waits_until(later).is_none();
            pacer.charge(&rates, later, 0);
            may_go_on
        });
        assert_eq!(taken.count(), 101);
    }

    #[test]
    fn extremes_neither_overflow_nor_divide_by_nothing() {
        let mut pacer = Pacer::default();
        let now = Instant::now();
        for rate in [1, u64::MAX] {
            pacer.charge(&rates(rate, rate), now, u64::from(u32::MAX));
        }
        assert!(pacer.waits_until(now).is_some());
    }

    #[test]
    fn clients_go_on_when_their_time_comes() {
        let start = Instant::now();
        let at = |ms| Some(start + Duration::from_millis(ms));
        let (mut paced, mut entered) = (Paced::default(), [None; 3]);
        for (client, ms) in [(0, 30), (1, 10), (2, 20)] {
            paced.enter(client, &mut entered[client], at(ms));
        }
        assert_eq!(paced.next_time(), at(10));
        let due = |paced: &Paced, ms| paced.due(at(ms).unwrap()).collect::<Vec<_>>();
        assert_eq!(due(&paced, 9), []);
        assert_eq!(due(&paced, 20), [1, 2]);
        paced.enter(1, &mut entered[1], at(40));
        paced.enter(2, &mut entered[2], None);
        assert_eq!(due(&paced, 39), [0]);
        paced.enter(0, &mut entered[0], None);
        paced.enter(1, &mut entered[1], None);
        assert!(paced.is_empty() && paced.next_time().is_none());
    }

    proptest! {
        /// Whenever requests come, no span of time has more of them than its length permits.
        #[test]
        fn no_span_has_more_than_the_rate(
            rate in 1_u64..5000,
            pauses_us in prop::collection::vec(0_u64..20_000, 1..200),
        ) {
            let rates = rates(rate, 0);
            let start = Instant::now();
            let (mut pacer, mut now, mut times) = (Pacer::default(), start, vec![]);
            for pause in pauses_us {
                now += Duration::from_micros(pause);
                now = pacer.waits_until(now).unwrap_or(now);
                pacer.charge(&rates, now, 0);
                times.push(now - start);
            }
            for (first, from) in times.iter().enumerate() {
                for (last, to) in times.iter().enumerate().skip(first) {
                    let permitted = (to.saturating_sub(*from) + BURST).as_secs_f64() * rate as f64 + 1.0;
                    prop_assert!((last - first + 1) as f64 <= permitted + 1e-6);
                }
            }
        }
    }
}
