package turn

import "slices"

// The bounds of the messages that wait in a running turn.
const (
	inboxMessages = 32
	inboxBytes    = 256 << 10
)

// inbox has the messages for a turn that runs. It is under the lock of the lanes, so no message is lost between the end of a turn and
// the lane.
type inbox struct {
	host   *Ticket
	list   []*Ticket
	used   []*Ticket // that the turn has taken
	closed bool
}

// put adds a ticket. It returns false if the inbox is closed or full.
func (i *inbox) put(k *Ticket) bool {
	size := k.turn.result.Envelope.size()
	for _, other := range i.list {
		size += other.turn.result.Envelope.size()
	}
	if i.closed || len(i.list) >= inboxMessages || size > inboxBytes {
		return false
	}
	i.list = append(i.list, k)
	k.phase, k.host = Steered, i.host
	return true
}

// take empties the inbox.
func (i *inbox) take() []*Ticket {
	list := i.list
	i.list = nil
	return list
}

// remove removes a ticket that was not taken.
func (i *inbox) remove(k *Ticket) bool {
	at := slices.Index(i.list, k)
	if at >= 0 {
		i.list = slices.Delete(i.list, at, at+1)
	}
	return at >= 0
}

// close closes the inbox when the model stage is over: later messages wait in the lane. Its messages stay until the turn ends.
func (i *inbox) close() {
	l := i.host.lanes
	l.mu.Lock()
	defer l.mu.Unlock()
	i.closed = true
}

// Take implements [Inbox].
func (i *inbox) Take() (list []*Envelope) {
	l := i.host.lanes
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, k := range i.take() {
		list = append(list, k.turn.result.Envelope)
		i.used = append(i.used, k)
	}
	return list
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

// size is what an envelope counts in an inbox, in bytes.
func (e *Envelope) size() int {
	n := len(e.Content)
	for _, f := range e.Context {
		n += len(f.Key) + len(f.Value)
	}
	for _, m := range e.Media {
		n += len(m.URL)
	}
	return n
}
