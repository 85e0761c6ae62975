//! The streams of a connection, and what their answers hold in sum.

use bytes::Bytes;
use foldhash::fast::RandomState;
use hashbrown::HashMap;
use hashbrown::hash_map::Entry;

use super::stream::Stream;
use crate::service::LongMessage;

/// A message longer than this is giant: the response to a very large range. Its key-values are in
/// the store anyway, so only its own memory counts, and its length delays only further giant
/// messages. Otherwise a client that reads one could do nothing else until it is read.
const GIANT_MIN: usize = 16 << 20;
/// A table that had to grow beyond this is given back once it is empty.
const KEPT_CAPACITY: usize = 1024;

#[derive(Debug)]
pub(super) struct Streams<T> {
    streams: HashMap<u32, Stream<T>, RandomState>,
    sums: Sums,
}

/// Over all streams.
#[derive(Debug, Default)]
struct Sums {
    /// Bytes of answers that are in memory and wait for a window: the sum of `queued`.
    queued: usize,
    /// The same with what long messages have still to encode, but for giant ones.
    unsent: usize,
    /// What giant messages have still to encode.
    giant: usize,
    /// Bytes of memory that giant messages take.
    giant_held: usize,
    /// Bytes of the heads of requests.
    heads: usize,
}

impl Sums {
    #[inline]
    fn remove<T>(&mut self, stream: &Stream<T>) {
        self.queued -= stream.queued;
        self.unsent -= stream.unsent() - stream.giant();
        self.giant -= stream.giant();
        self.giant_held -= stream.giant_held;
        self.heads -= stream.head_bytes;
    }
}

impl<T> Default for Streams<T> {
    fn default() -> Streams<T> {
        Streams { streams: HashMap::default(), sums: Sums::default() }
    }
}

impl<T> Streams<T> {
    pub(super) fn len(&self) -> usize {
        self.streams.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.streams.is_empty()
    }

    pub(super) fn queued(&self) -> usize {
        self.sums.queued
    }

    /// Bytes that answers hold, as if long messages were encoded already unless they are giant.
    pub(super) fn held(&self) -> usize {
        self.sums.unsent + self.sums.giant_held
    }

    /// What giant messages have still to encode.
    pub(super) fn giant(&self) -> usize {
        self.sums.giant
    }

    pub(super) fn heads(&self) -> usize {
        self.sums.heads
    }

    pub(super) fn contains(&self, id: u32) -> bool {
        self.streams.contains_key(&id)
    }

    pub(super) fn get(&self, id: u32) -> Option<&Stream<T>> {
        self.streams.get(&id)
    }

    pub(super) fn get_mut(&mut self, id: u32) -> Option<&mut Stream<T>> {
        self.streams.get_mut(&id)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &Stream<T>)> {
        self.streams.iter().map(|(id, stream)| (*id, stream))
    }

    pub(super) fn insert(&mut self, id: u32, stream: Stream<T>) {
        self.sums.heads += stream.head_bytes;
        let before = self.streams.insert(id, stream);
        assert!(before.is_none(), "a stream is opened once");
    }

    /// Removes a stream with all that it held.
    pub(super) fn remove(&mut self, id: u32) -> Option<Stream<T>> {
        let stream = self.streams.remove(&id)?;
        self.sums.remove(&stream);
        Some(stream)
    }

    /// Removes a stream of which nothing is needed any more. Whether all of its request had come.
    pub(super) fn close(&mut self, id: u32) -> Option<bool> {
        let Entry::Occupied(entry) = self.streams.entry(id) else { return None };
        let is_received = entry.get().is_received;
        self.sums.remove(entry.get());
        drop(entry.remove());
        Some(is_received)
    }

    /// Gives back memory that only a burst of streams needed.
    pub(super) fn shrink(&mut self) {
        if self.streams.is_empty() && self.streams.capacity() > KEPT_CAPACITY {
            self.streams = HashMap::default();
        }
    }

    /// Queues a part of an answer.
    pub(super) fn push(&mut self, id: u32, data: Bytes) {
        let Some(stream) = self.streams.get_mut(&id) else { return };
        self.sums.queued += data.len();
        self.sums.unsent += data.len();
        stream.queued += data.len();
        stream.queue.push_back(data);
    }

    /// Queues a message of which nothing is encoded yet, behind what is queued.
    pub(super) fn attach(&mut self, id: u32, message: Box<dyn LongMessage>) {
        let Some(stream) = self.streams.get_mut(&id) else { return };
        assert!(stream.long.is_none(), "an answer has one long message");
        let len = message.remaining();
        if len > GIANT_MIN {
            stream.giant_held = message.held().max(1);
            self.sums.giant += len;
            self.sums.giant_held += stream.giant_held;
        } else {
            self.sums.unsent += len;
        }
        stream.long = Some(message);
    }

    /// Takes at most `max` bytes of what a stream has to send.
    pub(super) fn take(&mut self, id: u32, max: usize) -> Option<Bytes> {
        let stream = self.streams.get_mut(&id)?;
        let data = match stream.queue.front_mut() {
            Some(front) => {
                let data = front.split_to(front.len().min(max));
                if front.is_empty() {
                    stream.queue.pop_front();
                }
                stream.queued -= data.len();
                self.sums.queued -= data.len();
                data
            }
            None => {
                let long = stream.long.as_mut()?;
                let before = long.remaining();
                let data = long.next(max);
                assert_eq!(before - data.len(), long.remaining(), "a message is as long as it says");
                let is_giant = stream.giant_held > 0;
                if long.remaining() == 0 {
                    stream.long = None;
                    self.sums.giant_held -= std::mem::take(&mut stream.giant_held);
                }
                if is_giant {
                    self.sums.giant -= data.len();
                    return Some(data);
                }
                data
            }
        };
        self.sums.unsent -= data.len();
        Some(data)
    }
}
