-- Parts that are a notable share of what a nation has in stock.
with stock as (
  select ps_partkey, sum(ps_supplycost * ps_availqty) as worth
  from partsupp join supplier on s_suppkey = ps_suppkey join nation on n_nationkey = s_nationkey
  where n_name = 'GERMANY' group by 1
)
select ps_partkey, worth from stock
where worth > (select 0.0001 * sum(worth) from stock) order by worth desc;
