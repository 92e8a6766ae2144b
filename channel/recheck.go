package channel

import (
	"context"
	"fmt"
)

// stillAllowed asks the gates route and sender again (CH-61): somebody who was let in is perhaps no longer.
func (k *Kernel) stillAllowed(ctx context.Context, channel, account string, o Origin) error {
	if k.Settings == nil || o.Sender.ID == "" { // nobody was let in: the server itself began
		return nil
	}
	f := Facts{Channel: channel, Account: account, Sender: o.Sender, Conversation: o.Conversation}
	policy := k.Settings.Policy(f.PolicyQuery())
	who := o.Sender.Identity()
	if policy.DM == PolicyPairing && o.Conversation.Kind == Direct && k.Pairing != nil {
		paired, err := k.Pairing.Paired(ctx, channel, account, o.Sender.ID)
		switch {
		case err != nil:
			who.Paired = Unknown
		case paired:
			who.Paired = Yes
		default:
			who.Paired = No
		}
	}
	f.Access = policy.Access(who, MentionFacts{})
	for _, v := range Evaluate(f).Verdicts {
		if v.State == Blocked && (v.Gate == GateRoute || v.Gate == GateSender) {
			return fmt.Errorf("%s by %s", v.Reason, v.Setting)
		}
	}
	return nil
}
