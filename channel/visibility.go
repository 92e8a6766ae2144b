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

// Visible returns what an agent may see of the supplemental facts. A channel calls it before it loads media. hidesMessage reports that the message itself
// was forwarded from someone who is hidden.
func (s SupplementalFacts) Visible(v Visibility) (visible SupplementalFacts, hidesMessage bool) {
	if q := s.Quote; q != nil && !v.sees(q.SenderAllowed, q.IsSelf && !q.IsExternal, true) {
		s.Quote = nil
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
