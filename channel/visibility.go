package channel

// sees says whether what someone else wrote stays in the context. own are words of this agent in this conversation; chosen are a message
// that the sender replies to, and one that the sender forwards.
func (v Visibility) sees(allowed Tri, own, chosen bool) bool {
	switch v {
	case VisibleAll:
		return true
	case VisibleAllowlist:
		return own || allowed == Yes
	default: // allowlist_quote
		return own || allowed == Yes || chosen
	}
}

// Visible is what of the supplemental facts an agent may see: quotes hop by hop, the forward and the thread each by itself. What is
// hidden is gone, its media too, so that a channel asks before it loads any. hidesMessage says that the message itself is words of
// someone who is hidden: it was forwarded.
func (s SupplementalFacts) Visible(v Visibility) (seen SupplementalFacts, hidesMessage bool) {
	if q := s.Quote; q != nil {
		chain := visibleHops(v, q.Chain)
		if v.sees(q.SenderAllowed, q.IsSelf && !q.IsExternal, true) {
			if len(chain) != len(q.Chain) || len(chain) > 0 {
				c := *q
				c.Chain = chain
				s.Quote = &c
			}
		} else {
			// The hops behind it are judged by themselves: they stay, behind a quote that says nothing.
			s.Quote = nil
			if len(chain) > 0 {
				s.Quote = &Quote{Chain: chain}
			}
		}
	}
	if hidesMessage = s.HidesMessage(v); hidesMessage {
		s.Forwarded = nil
	}
	if t := s.Thread; t != nil && !v.sees(t.SenderAllowed, false, false) {
		s.Thread = nil
	}
	return s, hidesMessage
}

// HidesMessage says that the message was forwarded from someone who is hidden.
func (s *SupplementalFacts) HidesMessage(v Visibility) bool {
	return s.Forwarded != nil && !v.sees(s.Forwarded.SenderAllowed, false, true)
}

// visibleHops flattens what is behind a quote: hops of hops stand behind each other.
func visibleHops(v Visibility, hops []Quote) []Quote {
	var seen []Quote
	for _, q := range hops {
		deeper := q.Chain
		if q.Chain = nil; v.sees(q.SenderAllowed, q.IsSelf && !q.IsExternal, false) {
			seen = append(seen, q)
		}
		seen = append(seen, visibleHops(v, deeper)...)
	}
	return seen
}
