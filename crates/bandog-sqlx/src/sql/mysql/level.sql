-- The isolation level of the next transactions of this session.
set @bandog_level = /*M! @@session.tx_isolation */ /*!80000 @@session.transaction_isolation */,
    session /*M! tx_isolation */ /*!80000 transaction_isolation */ = 'READ-COMMITTED'
