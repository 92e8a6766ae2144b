package cluster

import (
	"context"
	"errors"
	"net/http"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Codes of JetStream's errors that its client has no names for.
const (
	codeAccountFull     = jetstream.ErrorCode(server.JSAccountResourcesExceededErr)
	codeNoPeers         = jetstream.ErrorCode(server.JSClusterNoPeersErrF) // too few servers, or not enough that know of each other yet
	codeNotLeader       = jetstream.ErrorCode(server.JSClusterNotLeaderErr)
	codeNoResources     = jetstream.ErrorCode(server.JSInsufficientResourcesErr)    // the servers use all that they may
	codeNoStorage       = jetstream.ErrorCode(server.JSStorageResourcesExceededErr) // or have set it aside for other streams
	codeStoreFailed     = jetstream.ErrorCode(server.JSStreamStoreFailedF)          // a stream has all the bytes that it may, for one
	codeNotClustered    = jetstream.ErrorCode(server.JSStreamReplicasNotSupportedErr)
	codeIncompleteBatch = jetstream.ErrorCode(server.JSAtomicPublishIncompleteBatchErr) // a message of it was lost, or it took too long
)

// Code is what JetStream has refused a request with. All codes are in the servers' own list, server/errors.json of nats-server, with an HTTP
// status and a sentence each. It is 0 of other errors: nothing was answered then.
func Code(err error) jetstream.ErrorCode {
	if e, ok := errors.AsType[*jetstream.APIError](err); ok {
		return e.ErrorCode
	}
	return 0
}

// Full says whether the servers, the account or the stream have no room for a message: it is refused until something else has gone.
func Full(err error) bool {
	switch Code(err) {
	case codeAccountFull, codeNoResources, codeNoStorage, codeStoreFailed:
		return true
	}
	return false
}

// Passing says whether an error may go away by itself within seconds, so that it is worth while to try again: a leader is being elected,
// the servers or the way to them are away, or they have too much to do. [Full] is none. A connection that this process has closed is one,
// as another replica has its own: who tries again looks for that.
func Passing(err error) bool {
	if Full(err) {
		return false
	}
	if e, ok := errors.AsType[*jetstream.APIError](err); ok {
		switch e.Code {
		case http.StatusServiceUnavailable, http.StatusRequestTimeout, // no leader of all, for one
			http.StatusTooManyRequests: // messages on their way to a stream, or atomic batches
			return true
		}
		switch e.ErrorCode {
		case codeNotLeader, codeIncompleteBatch, jetstream.JSErrCodeStreamWrongLastSequenceConstant: // see WrongSequence
			return true
		}
		return false
	}
	for _, known := range []error{
		nats.ErrNoResponders, nats.ErrTimeout, context.DeadlineExceeded, nats.ErrReconnectBufExceeded, nats.ErrConnectionReconnecting,
		nats.ErrDisconnected, nats.ErrStaleConnection, nats.ErrConnectionClosed, nats.ErrNoServers, jetstream.ErrNoStreamResponse,
	} {
		if errors.Is(err, known) {
			return true
		}
	}
	return false
}

// Unstored says whether the message that was published surely is not stored: it was refused, or was never sent. Of others nobody knows, and
// so of one whose connection is closed: it may have been on its way.
func Unstored(err error) bool {
	return Code(err) != 0 || errors.Is(err, nats.ErrReconnectBufExceeded) || errors.Is(err, nats.ErrNoResponders) || errors.Is(err, jetstream.ErrNoStreamResponse)
}

// WrongSequence says whether a publish was refused because the expected last sequence, of a stream or of a subject, is not the
// last. Where an earlier attempt had no answer, it may be that one that has moved it. It is [Passing] where, with several copies, another
// message of the subject is being stored: nobody knows yet which will be the last.
func WrongSequence(err error) bool {
	switch Code(err) {
	case jetstream.JSErrCodeStreamWrongLastSequence, jetstream.JSErrCodeStreamWrongLastSequenceConstant:
		return true
	}
	return false
}
