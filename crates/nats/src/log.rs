//! Log: a stream of JetStream as a `vetch_cluster::Log`.
//!
//! A thread of the runtime sends appends in the order they are given; outcomes and records come
//! back through one bounded channel. Outcomes of a connection that broke are dropped: `Reconnected`
//! comes first.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use async_nats::jetstream;
use async_nats::jetstream::stream::Stream;
use async_nats::{Client, ConnectOptions, Event};
use bytes::Bytes;
use crossbeam_channel::Receiver;
use tokio::runtime::Runtime;
use tokio::sync::{mpsc, watch};
use vetch_cluster::{Log, LogError, LogEvent, Space, Ticket, Waker};
use vetch_journal::Position;

use crate::check::{self, Unsafe};
use crate::events::{LogEventSender, Received};
use crate::options::Options;
use crate::reconnect::{Heard, reconnect_if_isolated};
use crate::space::Gauge;
use crate::tail::{Asked, Tail};
use crate::{NatsError, append};

/// Appends waiting to be sent; a replica has far fewer in flight.
const APPENDS: usize = 1024;
/// Bytes of a message besides the record: its headers.
const HEADERS: usize = 256;

/// A stream of JetStream.
pub struct NatsLog {
    runtime: Runtime,
    client: Client,
    stream: Stream<()>,
    sender: LogEventSender,
    events: Receiver<Received>,
    /// Whether a waker has interrupted the wait.
    woken: Arc<AtomicBool>,
    appends: mpsc::Sender<(Ticket, Position, Bytes)>,
    asked: watch::Sender<Option<Asked>>,
    timeout: Duration,
    unsafe_settings: Vec<Unsafe>,
    space: Gauge,
}

impl NatsLog {
    /// Connects, makes the stream if there is none, and refuses one that could lose what it
    /// acknowledged.
    pub fn open(options: &Options) -> Result<NatsLog, NatsError> {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
        let runtime = runtime.map_err(|error| NatsError::Connect(error.to_string()))?;
        let heard = Heard::nothing();
        let (sender, events) = LogEventSender::new(heard.clone());
        let (client, stream, unsafe_settings) = runtime.block_on(opened(options, sender.clone()))?;
        let (appends, queue) = mpsc::channel(APPENDS);
        runtime.spawn(send(client.clone(), options.clone(), queue, sender.clone()));
        let (timeout, space) = (options.timeout, Gauge::default());
        runtime.spawn(space.clone().follow(client.clone(), stream.clone(), timeout));
        runtime.spawn(reconnect_if_isolated(client.clone(), options.clone(), heard));
        let (asked, reads) = watch::channel(None);
        runtime.spawn(Tail::new(client.clone(), stream.clone(), timeout).run(reads));
        let woken = Arc::default();
        Ok(NatsLog {
            runtime,
            client,
            stream,
            sender,
            events,
            woken,
            appends,
            asked,
            timeout,
            unsafe_settings,
            space,
        })
    }

    /// What was found unsafe and accepted all the same.
    pub fn unsafe_settings(&self) -> &[Unsafe] {
        &self.unsafe_settings
    }
}

async fn opened(
    options: &Options,
    sender: LogEventSender,
) -> Result<(Client, Stream<()>, Vec<Unsafe>), NatsError> {
    let events = ConnectOptions::new().event_callback(move |event| {
        let sender = sender.clone();
        async move {
            if matches!(event, Event::Disconnected) {
                sender.begin_connection();
            }
            if matches!(event, Event::Connected) {
                // It has its time to show that the journal answers there.
                sender.heard().begin();
                if sender.current_connection() > 0 {
                    sender.for_current_connection().send(LogEvent::Reconnected).await;
                }
            }
        }
    });
    let client = options.connect(&options.login, events).await?;
    let context = jetstream::new(client.clone());
    let failed = |error: &dyn std::fmt::Display| NatsError::Stream {
        stream: options.stream.clone(),
        why: error.to_string(),
    };
    let mut stream =
        context.get_or_create_stream(check::wanted(options)).await.map_err(|error| failed(&error))?;
    let config = stream.info().await.map_err(|error| failed(&error))?.config.clone();
    let mut problems = check::settings(&config, options);
    let wanted = check::servers_wanted(&config, options);
    let server = client.server_info();
    problems.extend(check::version(&server.server_name, &server.version));
    match &options.system {
        None => problems.push(Unsafe::Unknown { seen: 0, wanted }),
        Some(login) => {
            let system = options.connect(login, ConnectOptions::new()).await?;
            problems.extend(check::servers(&system, wanted).await);
            if options.most_are_enough && problems.iter().all(Unsafe::most_were_seen) && !problems.is_empty()
            {
                problems.clear();
                tokio::spawn(check::look_again(system, wanted));
            }
        }
    }
    if !problems.is_empty() && !options.allow_unsafe {
        return Err(NatsError::Unsafe(problems));
    }
    let stream = context.get_stream_no_info(&options.stream).await.map_err(|error| failed(&error))?;
    Ok((client, stream, problems))
}

/// Sends appends one after another; each outcome is awaited by itself.
async fn send(
    client: Client,
    options: Options,
    mut queue: mpsc::Receiver<(Ticket, Position, Bytes)>,
    sender: LogEventSender,
) {
    let mut context = jetstream::new(client);
    context.set_timeout(options.timeout);
    let subject = options.subject();
    while let Some((ticket, after, record)) = queue.recv().await {
        let sender = sender.for_current_connection();
        match context.send_publish(subject.clone(), append::message(after, record)).await {
            Ok(answer) => {
                tokio::spawn(async move { sender.send(append::outcome(ticket, answer.await)).await });
            }
            Err(error) => sender.send(append::outcome(ticket, Err(error))).await,
        }
    }
}

impl Log for NatsLog {
    fn append(&mut self, ticket: Ticket, after: Position, record: Bytes) {
        if self.appends.try_send((ticket, after, record)).is_err() {
            let why = "too many appends wait to be sent".to_string();
            let sender = self.sender.for_current_connection();
            self.runtime.spawn(async move { sender.send(LogEvent::Unknown { ticket, why }).await });
        }
    }

    fn read(&mut self, after: Position) {
        self.asked.send_replace(Some(Asked { after, sender: self.sender.for_current_connection() }));
    }

    fn next(&mut self, wait: Duration) -> Option<LogEvent> {
        let until = Instant::now() + wait;
        loop {
            match self.events.recv_deadline(until).ok()? {
                Received::LogEvent(connection, event) => {
                    if connection == self.sender.current_connection() {
                        return Some(event);
                    }
                }
                Received::Wake => {
                    // From here on it has to be asked for again: what was asked for before is
                    // looked at now.
                    self.woken.store(false, Ordering::SeqCst);
                    return None;
                }
            }
        }
    }

    fn waker(&self) -> Option<Waker> {
        let (sender, woken) = (self.sender.clone(), Arc::clone(&self.woken));
        Some(Arc::new(move || {
            // Once is enough, and who has so much news does not wait.
            if !woken.swap(true, Ordering::SeqCst) && !sender.try_wake() {
                woken.store(false, Ordering::SeqCst);
            }
        }))
    }

    fn trim(&mut self, floor: Position) -> Result<(), LogError> {
        let purge = async { self.stream.purge().sequence(floor.0).await };
        let purged = self.runtime.block_on(async { tokio::time::timeout(self.timeout, purge).await });
        match purged {
            Err(_) => Err(LogError::NoAnswer),
            Ok(Err(error)) => Err(LogError::Failed(error.to_string())),
            Ok(Ok(_)) => Ok(()),
        }
    }

    fn start_trim(&mut self, floor: Position) {
        let (stream, timeout) = (self.stream.clone(), self.timeout);
        self.runtime.spawn(async move {
            // What was not done is asked for again.
            let _ = tokio::time::timeout(timeout, async { stream.purge().sequence(floor.0).await }).await;
        });
    }

    fn space(&mut self) -> Option<Space> {
        self.space.last()
    }

    fn max_record(&self) -> usize {
        self.client.server_info().max_payload.saturating_sub(HEADERS)
    }
}
