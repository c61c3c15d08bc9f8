package countertest

// upsertRules are of no verb of package counter: they show what an upsert does by itself, and which form is right.
func upsertRules[T any]() []rule[T] {
	return []rule[T]{
		{
			"Upsert", "An upsert names its columns and conflicts on the business key; others overwrite or duplicate.",
			(*suite[T]).upsert,
		},
	}
}

func (s *suite[T]) upsert() {
	s.exec(`create table if not exists account (id integer primary key, email varchar(100) unique, name text, balance integer not null default 0)`)
	s.exec(`delete from account`)
	s.exec(`insert into account (id, email, name, balance) values (1, 'a@example.com', 'A', 100)`)
	row := func() (name string, balance int) {
		s.must(s.DB.Conn().QueryRow(s.ctx, `select name, balance from account where email = 'a@example.com'`).Scan(&name, &balance))
		return name, balance
	}
	// The wrong target: the business key is not what the conflict is on, so the second form of one account is an error.
	if _, err := s.DB.Conn().Exec(s.ctx, `insert into account (id, email, name) values (2, 'a@example.com', 'B')
		on conflict (id) do update set name = excluded.name`); err == nil {
		s.Fatal("an upsert on the surrogate key found the account")
	}
	// Set *: what the form does not carry is overwritten with its default.
	s.exec(`insert into account (id, email, name) values (2, 'a@example.com', 'C')
		on conflict (email) do update set name = excluded.name, balance = excluded.balance`)
	if _, balance := row(); balance != 0 {
		s.Fatalf("set * kept the balance %d", balance)
	}
	s.exec(`update account set balance = 100`)
	// Named columns, the business key.
	s.exec(`insert into account (id, email, name) values (2, 'a@example.com', 'D') on conflict (email) do update set name = excluded.name`)
	if name, balance := row(); name != "D" || balance != 100 {
		s.Fatalf("got %s, %d", name, balance)
	}
}
