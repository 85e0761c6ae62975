use super::*;
use std::thread;

const SOON: Duration = Duration::from_millis(20);
const LONG: Duration = Duration::from_secs(20);

#[test]
fn items_come_in_order_and_a_full_queue_refuses() {
    let (sender, receiver) = bounded(2);
    sender.try_send(1).unwrap();
    sender.try_send(2).unwrap();
    assert!(matches!(sender.try_send(3), Err(TrySendError::Full(3))));
    assert!(matches!(sender.send_timeout(3, SOON), Err(SendTimeoutError::Timeout(3))));
    assert_eq!(sender.len(), 2);
    assert_eq!((receiver.try_recv(), receiver.recv()), (Ok(1), Ok(2)));
    assert_eq!(receiver.try_recv(), Err(TryRecvError::Empty));
    assert_eq!(receiver.recv_timeout(SOON), Err(RecvTimeoutError::Timeout));
}

#[test]
fn a_receiver_that_sleeps_is_woken_by_an_item() {
    let (sender, receiver) = bounded(1);
    let sleeper = thread::spawn(move || receiver.recv_timeout(LONG));
    thread::sleep(SOON);
    sender.try_send(7).unwrap();
    assert_eq!(sleeper.join().unwrap(), Ok(7));
}

#[test]
fn a_sender_that_waits_for_room_is_woken_by_it() {
    let (sender, receiver) = bounded(1);
    sender.try_send(1).unwrap();
    let waiting = thread::spawn(move || sender.send_timeout(2, LONG));
    thread::sleep(SOON);
    assert_eq!(receiver.recv(), Ok(1));
    assert_eq!(receiver.recv_timeout(LONG), Ok(2));
    waiting.join().unwrap().unwrap();
}

#[test]
fn what_was_sent_is_received_after_the_last_sender_has_gone() {
    let (sender, receiver) = bounded(1);
    let other = sender.clone();
    sender.try_send(1).unwrap();
    drop(sender);
    assert_eq!(receiver.recv(), Ok(1));
    assert_eq!(receiver.try_recv(), Err(TryRecvError::Empty), "there is another sender");
    let sleeper = thread::spawn(move || receiver.recv());
    thread::sleep(SOON);
    drop(other);
    assert_eq!(sleeper.join().unwrap(), Err(RecvError));
}

#[test]
fn senders_learn_that_the_receiver_is_gone_and_what_was_queued_is_dropped() {
    let (sender, receiver) = bounded(1);
    let item = Arc::new(());
    sender.try_send(Arc::clone(&item)).unwrap();
    let waiting = {
        let (sender, item) = (sender.clone(), Arc::clone(&item));
        thread::spawn(move || sender.send(item).is_err())
    };
    thread::sleep(SOON);
    drop(receiver);
    assert!(waiting.join().unwrap());
    assert_eq!(Arc::strong_count(&item), 1);
    assert!(matches!(sender.try_send(item), Err(TrySendError::Disconnected(_))));
}

#[test]
fn a_nudge_wakes_once_and_is_not_lost() {
    let (sender, receiver) = bounded::<()>(1);
    receiver.nudge().ring();
    assert!(receiver.wait(Some(Instant::now() + LONG)), "nudged before it slept");
    assert!(!receiver.wait(Some(Instant::now() + SOON)));
    let nudge = receiver.nudge();
    let sleeper = thread::spawn(move || receiver.wait(Some(Instant::now() + LONG)));
    thread::sleep(SOON);
    nudge.ring();
    assert!(sleeper.join().unwrap());
    drop(sender);
}

#[test]
fn nothing_is_lost_or_doubled_between_many_senders_and_one_receiver() {
    let (sender, receiver) = bounded(3);
    let senders: Vec<_> = (0..4)
        .map(|from| {
            let sender = sender.clone();
            thread::spawn(move || (0..2000).for_each(|n| sender.send((from, n)).unwrap()))
        })
        .collect();
    drop(sender);
    let mut next = [0; 4];
    while let Ok((from, n)) = receiver.recv() {
        assert_eq!(n, next[from]);
        next[from] += 1;
    }
    senders.into_iter().for_each(|sender| sender.join().unwrap());
    assert_eq!(next, [2000; 4]);
}

#[test]
fn a_receiver_that_waits_for_several_is_woken_by_enough_items_and_not_before() {
    let (sender, receiver) = bounded(8);
    sender.send(1).unwrap();
    let begun = Instant::now();
    receiver.wait_for(1, begun + LONG);
    receiver.wait_for(2, begun + SOON);
    assert!((SOON..LONG).contains(&begun.elapsed()), "one was enough, then two did not come");
    let waiting = thread::spawn(move || {
        receiver.wait_for(3, Instant::now() + LONG);
        (receiver.len(), receiver)
    });
    sender.send(2).unwrap();
    thread::sleep(SOON);
    assert!(!waiting.is_finished(), "two are not three");
    sender.send(3).unwrap();
    let (came, receiver) = waiting.join().unwrap();
    assert_eq!(came, 3);
    // Afterwards one item is enough again.
    receiver.try_iter().for_each(drop);
    let waiting = thread::spawn(move || receiver.recv());
    thread::sleep(SOON);
    sender.send(4).unwrap();
    assert_eq!(waiting.join().unwrap(), Ok(4));
}

#[test]
fn a_receiver_does_not_wait_for_more_than_there_is_room_for() {
    let (sender, receiver) = bounded(2);
    (0..2).for_each(|item| sender.send(item).unwrap());
    let begun = Instant::now();
    receiver.wait_for(3, begun + LONG);
    assert!(begun.elapsed() < LONG);
}
