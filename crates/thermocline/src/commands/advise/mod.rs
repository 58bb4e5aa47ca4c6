//! `thermocline advise`: is a cache the right size, is it set right, and how long does flash last?

mod have;
mod listening;
mod page;

use std::path::Path;

use anyhow::{Context as _, Result, bail, ensure};
use thermocline_lab::advising::{Advice, Asked, Cache, Hardware, Kind, Workload};
use thermocline_lab::spec::DeviceSpec;
use thermocline_lab::{LabError, TierSize, Watch};
use thermocline_trace::{PageSize, Requests as _, RunningSample};

use crate::arguments::{AdviseOptions, PartOfTrace};
use crate::{interrupt, output, reading};

/// Minimum size of flash to say anything about.
const LEAST_FLASH_PAGES: u64 = 64;
/// Months of a year.
const MONTHS: f64 = 12.0;

/// Runs the command.
pub(crate) fn run(options: &AdviseOptions) -> Result<String> {
    check(options)?;
    let have = options.have.as_ref().map(have::read).transpose()?;
    let page_size = match &options.page_size {
        Some(text) => Some(text.parse()?),
        None => None,
    };
    // A bad question is refused before an hour is spent on listening.
    let page_bytes = page_size.map_or(PageSize::DEFAULT.bytes(), PageSize::bytes);
    let today = have.as_ref().map(|have| have::today(have, page_bytes)).transpose()?;
    let asked = asked(options, today, page_bytes)?;
    let hardware = Hardware {
        flash: named(&options.flash_device),
        disk: named(&options.disk_device),
        endurance_cycles: options.endurance,
    };
    let (name, sample) = match listening::target(options)? {
        Some(target) => {
            let sample = begun(options, page_size.unwrap_or(PageSize::DEFAULT));
            (target.name(), target.listen(sample, options, &asked, &hardware)?)
        }
        None => (reading::file_names(&options.traces), read(options, page_size)?),
    };
    ensure!(
        sample.totals().requests > 0,
        "nothing was heard of {name}: it had no requests; try another device, or listen for longer with --for"
    );
    if let Some(path) = &options.save {
        sample.save(path)?;
        output::note(&format!("sample: {}", path.display()));
    }
    let workload = Workload::new(&sample, Path::new(&name))?;
    let page_bytes = sample.page_size().bytes();
    drop(sample);
    let advice = interrupt::stopping(|watch| Advice::of(&workload, &asked, &hardware, watch))?;
    let advice = advice.map_err(|error| {
        let LabError::SampleTooSmall { rate, .. } = error else { return error.into() };
        anyhow::anyhow!(
            "1 in {:.0} of the requests were kept, which is too few for a cache of {}: keep more with --most-requests",
            1.0 / rate,
            output::bytes(asked.flash_bytes)
        )
    })?;
    let commands = have::commands(&advice, have.as_ref(), options, page_bytes)?;
    page::show(&advice, &commands, &name, options.format)
}

/// No flash may be written more often: a hundred times what the first chips with one bit per cell could.
const MOST_ENDURANCE: f64 = 1e7;

fn check(options: &AdviseOptions) -> Result<()> {
    let years = options.min_lifetime_years;
    ensure!(
        years >= 0.0 && years.is_finite(),
        "--min-lifetime-years {years}: expected a number of at least 0"
    );
    let endurance = options.endurance;
    ensure!(
        endurance > 0.0 && endurance <= MOST_ENDURANCE,
        "--endurance {endurance}: expected how many times all of flash may be written, a number above 0 and at most {MOST_ENDURANCE}"
    );
    for (flag, price) in [("--price", options.price), ("--budget", options.budget)] {
        if let Some(price) = price {
            ensure!(
                price > 0.0 && price.is_finite(),
                "{flag} {price}: expected a price above 0; leave both away if money does not matter"
            );
        }
    }
    ensure!(
        options.have.is_some() || options.flash.is_some() || options.budget.is_some(),
        "how much flash is there? Say --have lvmcache:vg/lv for the cache that there is, --flash 100GiB, or --budget and --price"
    );
    Ok(())
}

fn named(name: &str) -> DeviceSpec {
    DeviceSpec { name: Some(name.to_owned()), ..DeviceSpec::default() }
}

/// Return the question of the options.
fn asked(options: &AdviseOptions, today: Option<Cache>, page_bytes: u64) -> Result<Asked> {
    let bytes = |flag: &str, size: &TierSize| {
        size.whole_bytes()
            .filter(|&bytes| bytes > 0)
            .with_context(|| format!("{flag} {size}: write a number of bytes, as in 100GiB"))
    };
    let flash = options.flash.as_ref().map(|size| bytes("--flash", size)).transpose()?;
    let bought = options.budget.zip(options.price).map(|(budget, price)| budget / price);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the cast saturates, and prices are above 0"
    )]
    let bought = bought.map(|gib| (gib * f64::from(1 << 30)) as u64);
    let flash_bytes = flash.or(today.as_ref().map(|today| today.flash_bytes)).or(bought);
    let Some(flash_bytes) = flash_bytes.filter(|&bytes| bytes > 0) else {
        bail!("the budget buys no flash at that price; raise --budget");
    };
    ensure!(
        flash_bytes >= LEAST_FLASH_PAGES * page_bytes,
        "flash of {}: expected at least {LEAST_FLASH_PAGES} pages of {}",
        output::bytes(flash_bytes),
        output::bytes(page_bytes)
    );
    let ram = options.ram.as_ref().map(|size| bytes("--ram", size)).transpose()?;
    let ram_bytes = ram.or(today.as_ref().map(|today| today.ram_bytes)).unwrap_or(0);
    let mut kinds: Vec<Kind> = options.kinds.iter().map(|kind| kind.into_lab()).collect();
    if kinds.is_empty() {
        kinds = vec![Kind::Lvmcache, Kind::Bcache, Kind::OpenCas];
        // A cache with memory of its own.
        if ram_bytes > 0 {
            kinds.push(Kind::Thermocline);
        }
    }
    if let Some(kind) = options.have.as_ref().map(|have| have.kind.into_lab()) {
        kinds.retain(|one| *one != kind);
        kinds.insert(0, kind);
    }
    let needs_ram = kinds.iter().find(|kind| matches!(kind, Kind::Zfs | Kind::Thermocline));
    if let (Some(kind), 0) = (needs_ram, ram_bytes) {
        bail!("{} keeps pages in memory, too: say how much, as in --ram 4GiB", kind.name());
    }
    Ok(Asked {
        today,
        kinds,
        ram_bytes,
        flash_bytes,
        least_months: options.min_lifetime_years * MONTHS,
        price_per_gib: options.price,
        budget: options.budget,
    })
}

/// Return a sample without a request.
fn begun(options: &AdviseOptions, page_size: PageSize) -> RunningSample {
    let most = usize::try_from(options.most_requests).unwrap_or(usize::MAX);
    RunningSample::new(page_size, options.seed).with_most_requests(most)
}

/// Return the sample of traces, or of samples that were saved.
fn read(options: &AdviseOptions, page_size: Option<PageSize>) -> Result<RunningSample> {
    let mut sample: Option<RunningSample> = None;
    for path in &options.traces {
        let one = one(options, path, page_size)?;
        match &mut sample {
            Some(sample) => sample.join(&one).map_err(|reason| {
                anyhow::anyhow!("{}: it does not go with those before: {reason}", path.display())
            })?,
            None => sample = Some(one),
        }
    }
    sample.context("no trace was given")
}

fn one(options: &AdviseOptions, path: &Path, page_size: Option<PageSize>) -> Result<RunningSample> {
    if RunningSample::is_saved(path) {
        ensure!(
            options.part == PartOfTrace::default(),
            "`{}` is a sample, of which no part can be taken: give the trace that it was made from",
            path.display()
        );
        let most = usize::try_from(options.most_requests).unwrap_or(usize::MAX);
        return Ok(RunningSample::load(path)?.with_most_requests(most));
    }
    let reader = reading::open_reader(path, &options.reading())?;
    let page_size =
        page_size.map_or_else(|| reading::page_size(&options.reading(), &reader), Ok)?;
    let mut sample = begun(options, page_size);
    let mut part = reading::part(reading::WithProgress::new(reader)?, &options.reading());
    let mut batch = vec![];
    interrupt::stopping(|watch: &Watch| -> Result<()> {
        while part.read_batch(&mut batch)? {
            watch.check()?;
            for request in &batch {
                sample.add(request);
            }
        }
        sample.name_volumes(part.volume_names());
        Ok(())
    })??;
    part.into_source().finish();
    Ok(sample)
}
