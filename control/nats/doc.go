// Package nats is a [control.Control] on core NATS: a request is a message to <prefix>.ask.<replica>, which nobody stores, and its answer
// one to an inbox of who asks. What has more bytes than a message may have is several, in order.
package nats
