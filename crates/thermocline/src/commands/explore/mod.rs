//! `thermocline explore`: a page of this machine on which traces are looked at and caches are tried.
//!
//! The page asks, the server answers with figures and with the HTML of the lab's reports; what is asked is
//! worked on in other threads. Nothing is kept but the traces and studies that are open.

mod ask;
mod catalogue;
mod changing;
mod character;
mod guard;
mod point;
mod problem;
mod server;
mod session;
mod study;
mod traces;
mod upload;

use std::net::{Ipv4Addr, TcpListener};
use std::sync::Arc;

use anyhow::{Context as _, Result, anyhow};
use tokio::sync::oneshot;

use crate::arguments::ExploreOptions;
use crate::{interrupt, output, reading};
use session::Session;

/// Bytes of the token in the address.
const TOKEN_BYTES: usize = 16;

/// Runs the command, until a signal ends it.
pub(crate) fn run(options: &ExploreOptions) -> Result<String> {
    if let Some(trace) = &options.trace {
        reading::check(trace, &options.reading)?;
    }
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, options.port)).with_context(|| {
        format!("--port {}: cannot listen on 127.0.0.1 there; give another one", options.port)
    })?;
    let port = listener.local_addr().context("the port is not known")?.port();
    listener.set_nonblocking(true).context("cannot listen without waiting")?;
    let token = token()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.context("cannot begin to serve")?;
    let session = Arc::new(Session::new(options));
    let router = server::router(Arc::clone(&session), &token, port);
    let (stop, stopped) = oneshot::channel::<()>();
    let served = interrupt::calling(
        || {
            // Nobody waits for it if the address could not be printed.
            let _closed = stop.send(());
        },
        || {
            runtime.block_on(async {
                let listener = tokio::net::TcpListener::from_std(listener)?;
                let server = tokio::spawn(async { axum::serve(listener, router).await });
                if !output::print(&format!("http://127.0.0.1:{port}/{token}/\n")) {
                    return Err(anyhow!("the address of the page could not be printed"));
                }
                // An error is a sender that is gone, and with it who would stop the server.
                drop(stopped.await);
                server.abort();
                anyhow::Ok(())
            })
        },
    )?;
    session.stop();
    // Whoever waits for an answer has no server any more.
    runtime.shutdown_background();
    served.map(|()| String::new())
}

/// Return a name that nobody guesses.
fn token() -> Result<String> {
    let mut bytes = [0; TOKEN_BYTES];
    getrandom::fill(&mut bytes)
        .map_err(|error| anyhow!("there is no chance to be had: {error}"))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
