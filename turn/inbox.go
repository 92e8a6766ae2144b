package turn

import "slices"

// inboxBytes bounds the steering of one turn.
const inboxBytes = 256 << 10

// inbox is the steering of a turn that runs, under the lock of the lanes: so no message is lost between the end of a turn and the
// lane.
type inbox struct {
	host   *Ticket
	list   []*Ticket
	bytes  int
	closed bool
}

// put adds a ticket; false where there is no room.
func (i *inbox) put(k *Ticket) bool {
	o, size := &i.host.lanes.options, sizeOf(k.turn.outcome.Envelope)
	if i.closed || len(i.list) >= o.InboxMessages || i.bytes+size > inboxBytes {
		return false
	}
	i.list = append(i.list, k)
	i.bytes += size
	k.phase, k.host = Steered, i.host
	return true
}

// drain empties the inbox.
func (i *inbox) drain() []*Ticket {
	list := i.list
	i.list, i.bytes = nil, 0
	return list
}

// close takes what is left; nothing comes any more.
func (i *inbox) close() []*Ticket {
	i.closed = true
	return i.drain()
}

// end closes it when the model stage is over: steering is not read any more, so later messages wait in the lane. Its messages stay
// until the turn ends.
func (i *inbox) end() {
	l := i.host.lanes
	l.mu.Lock()
	defer l.mu.Unlock()
	i.closed = true
}

func (i *inbox) remove(k *Ticket) bool {
	at := slices.Index(i.list, k)
	if at < 0 {
		return false
	}
	i.list = slices.Delete(i.list, at, at+1)
	i.bytes -= sizeOf(k.turn.outcome.Envelope)
	return true
}

// Take implements [Inbox].
func (i *inbox) Take() []*Envelope {
	l := i.host.lanes
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(i.list) == 0 {
		return nil
	}
	list := i.drain()
	envelopes := make([]*Envelope, len(list))
	for n, k := range list {
		envelopes[n] = k.turn.outcome.Envelope
	}
	i.host.used = append(i.host.used, list...)
	return envelopes
}

// CloseIfEmpty implements [Inbox].
func (i *inbox) CloseIfEmpty() bool {
	l := i.host.lanes
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(i.list) == 0 {
		i.closed = true
	}
	return i.closed
}

// sizeOf is what an envelope counts in an inbox, in bytes.
func sizeOf(e *Envelope) int {
	n := len(e.Content)
	for _, f := range e.Context {
		n += len(f.Key) + len(f.Value)
	}
	for _, m := range e.Media {
		n += len(m.URL)
	}
	return n
}
