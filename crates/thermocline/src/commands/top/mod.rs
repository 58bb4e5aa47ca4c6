//! `thermocline top`: the figures of a running engine in the terminal, live.

mod screen;
mod view;

use std::io::IsTerminal as _;
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use ratatui::crossterm::event;

use self::screen::{Next, Screen};
use crate::arguments::TopOptions;
use crate::commands::serve::status::Status;

/// Maximum time for a server to answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// Time to wait for a key before looking for newer figures.
const GLANCE: Duration = Duration::from_millis(50);

/// Runs the command until a key ends it; on anything but a terminal, or with `--once`, prints the
/// figures of one interval.
pub(crate) fn run(options: &TopOptions) -> Result<String> {
    let url = url(options);
    let before = fetch(&url)?;
    if options.once || !std::io::stdout().is_terminal() {
        thread::sleep(options.interval);
        return Ok(view::text(&before, &fetch(&url)?));
    }
    let news = follow(url, options.interval)?;
    let mut screen = Screen::new(&options.engine, before);
    let mut terminal = ratatui::try_init().context("cannot take over the terminal")?;
    let result = watch(&mut terminal, &mut screen, &news);
    ratatui::restore();
    result.map(|()| String::new())
}

/// Asks for figures again and again, in a thread of its own, so that keys do not wait for the server.
fn follow(url: String, interval: Duration) -> Result<Receiver<Result<Status>>> {
    let (sender, news) = mpsc::channel();
    let work = move || {
        loop {
            thread::sleep(interval);
            if sender.send(fetch(&url)).is_err() {
                return;
            }
        }
    };
    thread::Builder::new().name("figures".into()).spawn(work).context("cannot start a thread")?;
    Ok(news)
}

fn watch(
    terminal: &mut ratatui::DefaultTerminal,
    screen: &mut Screen,
    news: &Receiver<Result<Status>>,
) -> Result<()> {
    loop {
        terminal.draw(|frame| screen.draw(frame)).context("cannot draw")?;
        let mut has_changed = false;
        while !has_changed {
            if event::poll(GLANCE).context("cannot read the keyboard")? {
                let event = event::read().context("cannot read the keyboard")?;
                if screen.takes(&event) == Next::Ends {
                    return Ok(());
                }
                has_changed = true;
            }
            while let Ok(news) = news.try_recv() {
                screen.learns(news);
                has_changed = true;
            }
        }
    }
}

/// Return the address of the figures of an engine, or of one of its volumes.
fn url(options: &TopOptions) -> String {
    let volume = options.volume.as_ref().map(|volume| format!("?volume={volume}"));
    format!("http://{}/status{}", options.engine, volume.unwrap_or_default())
}

/// Return the snapshot of an engine whose metrics are served there.
fn fetch(url: &str) -> Result<Status> {
    let context =
        || format!("no engine answers at `{url}`; give its `metrics.listen` address with --engine");
    let request = ureq::get(url).config().timeout_global(Some(PATIENCE));
    let request = request.http_status_as_error(false).build();
    let mut response = request.call().with_context(context)?;
    let status = response.status();
    if !status.is_success() {
        let reason = response.body_mut().read_to_string().with_context(context)?;
        bail!("`{url}`: {status}: {}; --volume names a volume", reason.trim_end());
    }
    response.body_mut().read_json().with_context(context)
}
