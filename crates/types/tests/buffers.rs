//! Buffers that are made on some threads and end on others.

use std::collections::VecDeque;
use std::sync::mpsc;
use std::thread;

use lode_types::{Buf, PAGE_BYTES};

/// Fills buffers of all sizes with marks of their own, on several threads that pass them on, and finds every mark as it was.
#[test]
fn buffers_never_overlap_on_whatever_thread_they_end() {
    const BUFFERS: usize = 600;
    let (send, receive) = mpsc::channel::<(u8, Buf)>();
    let makers: Vec<_> = (1..=4u8)
        .map(|mark| {
            let send = send.clone();
            thread::spawn(move || {
                for i in 0..BUFFERS {
                    let mut buf = Buf::for_overwrite(1 + i * 997 % (300 << 10));
                    assert_eq!(buf.as_slice().as_ptr() as usize % PAGE_BYTES, 0);
                    buf.as_mut_slice().fill(mark);
                    send.send((mark, buf)).unwrap();
                }
            })
        })
        .collect();
    drop(send);
    let is_whole = |(mark, buf): &(u8, Buf)| buf.as_slice().iter().all(|byte| byte == mark);
    let mut held = VecDeque::new();
    for made in receive {
        held.push_back(made);
        if held.len() > 100 {
            assert!(held.pop_front().is_some_and(|oldest| is_whole(&oldest)));
        }
    }
    assert!(held.iter().all(is_whole));
    makers.into_iter().for_each(|maker| maker.join().unwrap());
}
