-- Whether a transaction of this session can complete a run.
select cast((/*M! @@tx_isolation */ /*!80000 @@transaction_isolation */) = 'READ-COMMITTED' as signed) = 1
