-- Restores what level.sql has set.
set session /*M! tx_isolation */ /*!80000 transaction_isolation */ = @bandog_level
