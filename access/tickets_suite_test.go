package access_test

import (
	"testing"

	"github.com/lingserve/lingserve/access"
	"github.com/lingserve/lingserve/access/accesstest"
)

func TestTicketsInMemory(t *testing.T) {
	accesstest.Tickets(t, true, func(*testing.T) access.TicketStore { return access.NewTicketMemory(accesstest.Most, accesstest.All) })
}
