package nats

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// A message of a run is a head and records, or a part of records that are too long for one message:
//
//	version  1 byte
//	flags    1 byte
//	replica  length and text: who has written it; with the three numbers that follow it is the message's id
//	run      uvarint: which of the replica's runs
//	batch    uvarint, from 1
//	part     uvarint, from 0: of a batch
//	begin    uvarint: sequence of the message that the run begins with, 0 for that itself
//	before   uvarint: sequence of the run's message before, 0 where there is none
//	life     uvarint: of the replica's subject of pages that may have more of the run, until its next message; 0 where there is none
//	page     uvarint: sequence of the last page there; what it and those before it have of the run is in this message, or was before
//
// Records are one byte and what it has:
//
//	r  first event, length, opening   the run begins, or begins once more: of what came before nothing counts
//	a  nothing                        somebody else goes on with the run
//	o  length, opening                the run has another opening from now on
//	l  number                         events go on with this number
//	p  number of the block's first event, offset in it, length, bytes
//	e  length, head                   the run has ended
const (
	messageVersion = 3

	flagMore  = 1 // the batch's next part follows
	flagEnded = 2 // the run ends with this batch
	flagOther = 4 // the opening stands in this batch or one before, not in the message that the run begins with

	recordRun   = 'r'
	recordAdopt = 'a'
	recordOther = 'o'
	recordLeap  = 'l'
	recordPiece = 'p'
	recordEnd   = 'e'
)

// id is a message's identity.
type id struct {
	replica          string
	run, batch, part uint64
}

type head struct {
	id
	flags         byte
	begin, before uint64
	life, page    uint64
}

func (h *head) append(dst []byte) []byte {
	dst = append(dst, messageVersion, h.flags)
	dst = appendText(dst, h.replica)
	for _, n := range [...]uint64{h.run, h.batch, h.part, h.begin, h.before, h.life, h.page} {
		dst = binary.AppendUvarint(dst, n)
	}
	return dst
}

func appendText[T string | []byte](dst []byte, text T) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(text))), text...)
}

var errMessage = errors.New("runlog: invalid message")

// parser takes what messages have from their bytes.
type parser struct {
	rest []byte
	bad  bool
}

func (p *parser) number() uint64 {
	v, n := binary.Uvarint(p.rest)
	if n <= 0 {
		p.bad, p.rest = true, nil
		return 0
	}
	p.rest = p.rest[n:]
	return v
}

func (p *parser) text() []byte {
	n := p.number()
	if n > uint64(len(p.rest)) {
		p.bad, p.rest = true, nil
		return nil
	}
	t := p.rest[:n:n]
	p.rest = p.rest[n:]
	return t
}

// parse takes the head of a message.
func parse(data []byte) (h head, records []byte, err error) {
	if len(data) < 2 {
		return h, nil, errMessage
	}
	if data[0] != messageVersion {
		return h, nil, fmt.Errorf("%w: version %d; this program reads version %d", errMessage, data[0], messageVersion)
	}
	h.flags = data[1]
	p := parser{rest: data[2:]}
	h.replica = string(p.text())
	h.run, h.batch, h.part, h.begin, h.before, h.life, h.page = p.number(), p.number(), p.number(), p.number(), p.number(), p.number(), p.number()
	if p.bad {
		return h, nil, errMessage
	}
	return h, p.rest, nil
}
