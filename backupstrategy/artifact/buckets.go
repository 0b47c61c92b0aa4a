package artifact

import (
	"encoding/binary"
	"encoding/json"
	"strconv"

	"google.golang.org/protobuf/encoding/protowire"
)

func (r *report) meta(key string, value []byte) {
	f := &r.facts
	switch key {
	case "storageVersion":
		f.StorageVersion = string(value)
	case "consistent_index":
		f.ConsistentIndex = number(value)
	case "term":
		f.Term = number(value)
	case "finishedCompactRev", "scheduledCompactRev":
		if main, _, ok := parseRevision(value); ok {
			f.CompactedRevision = max(f.CompactedRevision, main)
		}
	}
}

func number(b []byte) uint64 {
	if len(b) != 8 {
		return 0
	}
	return binary.BigEndian.Uint64(b)
}

func (r *report) alarm(key []byte, at int64) error {
	var a Alarm
	err := fields(key, func(n protowire.Number, _ []byte, value uint64) {
		switch n {
		case 1:
			a.MemberID = strconv.FormatUint(value, 16)
		case 2:
			a.Type = alarmType(value)
		}
	})
	if err != nil {
		return broken(at, "an alarm cannot be read: %v", err)
	}
	if len(r.facts.Alarms) < maxNames {
		r.facts.Alarms = append(r.facts.Alarms, a)
	}
	return nil
}

func (r *report) member(key, value []byte, at int64) error {
	var m struct {
		Name       string   `json:"name"`
		PeerURLs   []string `json:"peerURLs"`
		ClientURLs []string `json:"clientURLs"`
		IsLearner  bool     `json:"isLearner"`
	}
	if err := json.Unmarshal(value, &m); err != nil {
		return broken(at, "member %s cannot be read: %v", short(key), err)
	}
	if len(r.facts.Members) < maxNames {
		r.facts.Members = append(r.facts.Members, Member{ID: string(key), Name: m.Name, PeerURLs: m.PeerURLs, ClientURLs: m.ClientURLs, Learner: m.IsLearner})
	}
	return nil
}

func (r *report) auth(key string, value []byte) {
	switch key {
	case "authEnabled":
		r.facts.Auth.Enabled = len(value) == 1 && value[0] == 1
	case "authRevision":
		r.facts.Auth.Revision = number(value)
	}
}

func (r *report) user(name string, value []byte, at int64) error {
	if len(r.facts.Auth.Users) >= maxNames && name != rootUser {
		return nil
	}
	err := fields(value, func(n protowire.Number, text []byte, _ uint64) {
		if n == 2 {
			r.facts.Auth.hashes[name] = append([]byte(nil), text...)
		}
	})
	if err != nil {
		return broken(at, "user %q cannot be read: %v", name, err)
	}
	r.facts.Auth.Users = append(r.facts.Auth.Users, name)
	return nil
}
