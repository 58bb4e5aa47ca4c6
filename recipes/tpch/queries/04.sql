-- Orders of a quarter with a line that came late, by priority.
select o_orderpriority, count(*) from orders
where o_orderdate between date '1993-07-01' and date '1993-09-30'
and exists (select from lineitem where l_orderkey = o_orderkey and l_commitdate < l_receiptdate)
group by 1 order by 1;
