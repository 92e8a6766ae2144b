package cluster

import "time"

// Patient has a replica keep a connection to a server that is stopped.
func Patient(o *Options) { o.ping = time.Hour }
