-- Whether this transaction can complete a run.
select current_setting('transaction_isolation') = 'read committed'
